"""Log-mel rows against their definition in float64: the discrete Fourier transform of numpy, filters built here."""

import io
import subprocess
import tempfile
import wave

import numpy as np
import pytest
import weightd

PROGRAM = weightd.BUILD / "tests/tools/audio_mel"
JFK = weightd.TOP / "tests/golden/jfk.wav"
RATE, N_FFT, HOP = 16000, 400, 160


def slaney_hz(mel):
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(np.log(6.4) / 27 * (mel - 15)))


def filters(bins):
    """[bins][201] triangles of area 1 between points evenly spaced on Slaney's scale from 0 to 8000 Hz."""
    points = slaney_hz(np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), bins + 2))
    hz = np.arange(N_FFT // 2 + 1) * RATE / N_FFT
    low, peak, high = points[:-2, None], points[1:-1, None], points[2:, None]
    return np.clip(np.minimum((hz - low) / (peak - low), (high - hz) / (high - peak)), 0, None) * 2 / (high - low)


def definition(samples, bins):
    padded = np.pad(np.pad(samples.astype(np.float64), (0, HOP)), N_FFT // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)
    n = 1 + (len(padded) - N_FFT) // HOP
    frames = np.stack([padded[i * HOP : i * HOP + N_FFT] * window for i in range(n - 1)])
    power = np.abs(np.fft.rfft(frames)) ** 2
    log = np.log10(np.maximum(power @ filters(bins).T, 1e-10))
    return (np.maximum(log, log.max() - 8) + 4) / 4


def ours(data, bins):
    with tempfile.NamedTemporaryFile() as samples:
        rows = subprocess.run([PROGRAM, str(bins), samples.name], input=data, stdout=subprocess.PIPE, check=True).stdout
        return np.frombuffer(rows, np.float32).reshape(-1, bins), np.frombuffer(samples.read(), np.float32)


def wav(samples):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(np.clip(np.round(samples * 32768), -32768, 32767).astype("<i2").tobytes())
    return out.getvalue()


def close(data, bins):
    rows, samples = ours(data, bins)
    wanted = definition(samples, bins)
    assert rows.shape == wanted.shape
    difference = np.abs(rows - wanted).max()
    print(f"{difference:.2e}")
    assert difference < 1e-4
    return rows, samples


@pytest.mark.parametrize("bins", [80, 128])
def test_speech(bins):
    rows, samples = close(JFK.read_bytes(), bins)
    assert rows.shape[0] == len(samples) // HOP + 1


@pytest.mark.parametrize("bins", [80, 128])
@pytest.mark.parametrize("n", [1, 2, 40, 41, 159, 160, 199, 200, 201, 202, 399, 400, 1600, 10080, 10081, 10240, 48000])
def test_lengths(n, bins):
    close(wav(np.random.default_rng(n).uniform(-0.5, 0.5, n)), bins)


@pytest.mark.parametrize("name", ["tone", "click", "quiet", "silence", "square", "full"])
def test_signals(name):
    t = np.arange(3 * RATE) / RATE
    signal = {
        "tone": 0.9 * np.sin(2 * np.pi * 440 * t),
        "click": np.where(np.arange(len(t)) == 7777, 0.9, 0.0),
        "quiet": 2e-4 * np.sin(2 * np.pi * 1234.5 * t),
        "silence": 0 * t,
        "square": 0.7 * np.sign(np.sin(2 * np.pi * 100 * t)),
        "full": np.sin(2 * np.pi * (50 + 1300 * t) * t),
    }[name]
    close(wav(signal), 80)
