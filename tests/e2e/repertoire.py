"""Requests whose answers must not depend on anything but themselves, and what an answer is when two are compared.

The repertoire has every way to ask: all endpoints that compute, streamed and whole, greedy and sampled, penalties, log-probabilities,
echo, stop strings, forced tokens, several prompts, and prompts of one to 1,500 tokens around the sizes of KV pages and
prefill chunks. None leaves its seed to the daemon."""

import json
import random
import re
from dataclasses import dataclass

COMPLETIONS, CHAT, EMBEDDINGS = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"
FIRST_TEXT_ID, N_VOCABULARY = 20, 49152  # SmolLM2's; the ids before are control tokens

WORDS = (
    "the river ran past a mill where old stones turned slowly and grain became flour for bread that people carried home "
    "over hills in baskets while children counted birds and asked why water never tires of going down"
).split()


@dataclass(frozen=True)
class Request:
    name: str
    target: str
    body: dict

    @property
    def json(self):
        return json.dumps(self.body).encode()


def ids(n, seed):
    rng = random.Random(seed)
    return [rng.randrange(FIRST_TEXT_ID, N_VOCABULARY) for _ in range(n)]


def prose(n_words, seed):
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(n_words))


def completion(name, prompt, max_tokens, **more):
    return Request(name, COMPLETIONS, {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **more})


def chat(name, messages, max_tokens, **more):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return Request(name, CHAT, {"messages": messages, "max_tokens": max_tokens, "temperature": 0, **more})


def embedding(name, inputs, **more):
    return Request(name, EMBEDDINGS, {"input": inputs, **more})


FRANCE = "The capital of France is"
DIALOGUE = [
    {"role": "system", "content": "You answer in few words. " + prose(60, 1)},
    {"role": "user", "content": "Where does the story play? " + prose(120, 2)},
    {"role": "assistant", "content": "At a river."},
    {"role": "user", "content": "And what is made there?"},
]
SAMPLED = {"temperature": 0.9, "seed": 7}
NARROW = {"temperature": 1.3, "seed": -11, "top_k": 50, "top_p": 0.95, "min_p": 0.02}
PENALTIES = {"presence_penalty": 0.6, "frequency_penalty": 0.4, "repeat_penalty": 1.15}

REPERTOIRE = [
    completion("greedy", FRANCE, 24),
    completion("greedy, streamed", FRANCE, 24, stream=True),
    completion("one token", [504], 16, ignore_eos=True, return_token_ids=True),
    completion("sampled", "Once upon a time", 24, **SAMPLED),
    completion("sampled narrowly, streamed", "Once upon a time", 24, **NARROW, stream=True),
    completion("penalties", "one two three one two three one two three", 20, **PENALTIES),
    completion("penalties, sampled, streamed", "la la la la la la", 20, **PENALTIES, **SAMPLED, stream=True),
    completion("log-probabilities and echo", prose(40, 3), 8, logprobs=5, echo=True),
    completion("a prompt scored, nothing generated", ids(300, 4), 0, logprobs=3, echo=True, return_token_ids=True),
    completion("echo, streamed", prose(20, 5), 12, echo=True, logprobs=2, stream=True, return_token_ids=True),
    completion("stop strings", FRANCE, 40, stop=["France.", "\n\n"]),
    completion("stop strings, streamed", "1, 2, 3, 4,", 40, stop=[" 12"], stream=True),
    completion("forced tokens", "It was", 16, forced_token_ids=ids(10, 6), logprobs=20, ignore_eos=True),
    completion("several prompts", [FRANCE, "1, 2, 3,", prose(50, 7)], 10, **SAMPLED, logprobs=1),
    completion("one page of prompt", ids(32, 8), 12, ignore_eos=True, **SAMPLED),
    completion("one page and one token", ids(33, 9), 12, ignore_eos=True),
    completion("257 tokens", ids(257, 10), 12, ignore_eos=True, stream=True, logprobs=1),
    completion("1,500 tokens, streamed", ids(1500, 11), 12, ignore_eos=True, stream=True),
    chat("chat that ends by itself", "Say hello.", 40),
    chat("chat, streamed with usage", "What is a river?", 24, stream=True, stream_options={"include_usage": True}),
    chat("chat, sampled, log-probabilities", "Tell me a story.", 16, **SAMPLED, logprobs=True, top_logprobs=4),
    chat("a dialogue", DIALOGUE, 24),
    embedding("a short text", FRANCE),
    embedding("vectors of several lengths", [ids(n, n) for n in (1, 32, 33, 257, 400)], encoding_format="base64"),
]
# A few of each kind, without the long prompts: for where every request costs much.
SHORT_REPERTOIRE = [request for request in REPERTOIRE if len(request.json) < 900][:12]


def random_request(rng):
    """Company for others."""
    options = {"temperature": rng.choice([0, 0.7, 1.2]), "seed": rng.randrange(1 << 40), "stream": rng.random() < 0.5}
    if rng.random() < 0.3:
        options |= PENALTIES
    if rng.random() < 0.3:
        options |= {"logprobs": rng.randrange(6)}
    n = rng.choice([1, 2, 7, 31, 40, 64, 100, 200])
    return completion("random", ids(n, rng.random()), rng.randrange(1, 24), ignore_eos=rng.random() < 0.5, **options)


def normalised(body):
    """An answer's bytes without what is made anew for each: its id and the second of its making, the same throughout."""
    identity = re.search(rb'"id":"(?:chatcmpl|cmpl)-[0-9a-f]{32}"', body)
    created = re.search(rb'"created":\d{10}', body)
    assert identity and created, body[:300]
    return body.replace(identity[0], b'"id":"-"').replace(created[0], b'"created":0')


def bytes_of(request, answer):
    """All that one answer says: its type, and the data lines of a stream or the object."""
    assert answer.status == 200, f"{request.name}: status {answer.status}: {answer.body[:500]!r}"
    if request.body.get("stream"):
        assert answer.body.endswith(b"data: [DONE]\n\n"), f"{request.name}: cut off: {answer.body[-200:]!r}"
    body = answer.body if request.target == EMBEDDINGS else normalised(answer.body)
    return answer.headers["Content-Type"].encode() + b"\n" + body


def ask(http, request, timeout=300):
    return bytes_of(request, http.request("POST", request.target, request.json, timeout=timeout))


def difference(request, expected, got):
    """Where two answers part, for a person."""
    at = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    return (
        f"'{request.name}' differs at byte {at} of {len(expected)} and {len(got)}:\n"
        f"  expected ...{expected[max(0, at - 60) : at + 60]!r}\n  got      ...{got[max(0, at - 60) : at + 60]!r}"
    )
