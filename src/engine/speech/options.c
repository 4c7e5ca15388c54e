#include "src/engine/speech/options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>

#include "src/engine/speech/beam.h"

static const int32_t model_says[] = {-1};

void speech_options_default(struct speech_options *options)
{
	*options = (struct speech_options){
		.language_threshold = 0.5f,
		.language_windows = 1,
		.beam_size = 5,
		.best_of = 5,
		.patience = 1,
		.length_penalty = 1,
		.repetition_penalty = 1,
		.temperatures = {0, 0.2f, 0.4f, 0.6f, 0.8f, 1},
		.n_temperatures = 6,
		.compression_ratio_threshold = 2.4f,
		.log_probability_threshold = -1,
		.no_speech_threshold = 0.6f,
		.condition_on_previous_text = true,
		.prompt_reset_on_temperature = 0.5f,
		.suppress_blank = true,
		.suppress = model_says,
		.n_suppress = 1,
		.max_initial_timestamp = 1,
		.prepend_punctuations = "\"'“¿([{-",
		.append_punctuations = "\"'.。,，!！?？:：”)]}、",
		.hallucination_silence_threshold = NAN,
	};
}

static int check_temperatures(const struct speech_options *o, struct err *err)
{
	if (o->n_temperatures < 1 || o->n_temperatures > SPEECH_MAX_TEMPERATURES)
		return err_set(err, -EINVAL, "temperature: give 1 to %d of them", SPEECH_MAX_TEMPERATURES);
	for (uint32_t i = 0; i < o->n_temperatures; i++)
		if (!(o->temperatures[i] >= 0 && o->temperatures[i] <= 100))
			return err_set(err, -EINVAL, "temperature: number %u is not in 0 to 100", i + 1);
	return 0;
}

static int check_clips(const struct speech_options *o, struct err *err)
{
	double before = 0;
	for (uint32_t i = 0; i < o->n_clips; i++) {
		if (!(o->clips[i].start >= before && o->clips[i].end >= o->clips[i].start))
			return err_set(err, -EINVAL,
				       "clip_timestamps: clip %u begins before the one before it ends, or ends before "
				       "it begins",
				       i + 1);
		before = o->clips[i].end;
	}
	return 0;
}

int speech_options_check(const struct speech_options *o, struct err *err)
{
	if (o->beam_size < 1 || o->beam_size > SPEECH_MAX_BEAMS)
		return err_set(err, -EINVAL, "beam_size: not in 1 to %d", SPEECH_MAX_BEAMS);
	if (o->best_of < 1 || o->best_of > SPEECH_MAX_BEAMS)
		return err_set(err, -EINVAL, "best_of: not in 1 to %d", SPEECH_MAX_BEAMS);
	if (!(o->patience > 0 && o->patience <= 100))
		return err_set(err, -EINVAL, "patience: not above 0 and at most 100");
	if (!(fabsf(o->length_penalty) <= 10))
		return err_set(err, -EINVAL, "length_penalty: not in -10 to 10");
	if (!(o->repetition_penalty > 0 && o->repetition_penalty <= 100))
		return err_set(err, -EINVAL, "repetition_penalty: not above 0 and at most 100");
	if (!(o->max_initial_timestamp >= 0 && o->max_initial_timestamp <= 30))
		return err_set(err, -EINVAL, "max_initial_timestamp: not in 0 to 30 seconds");
	if (o->language_windows < 1)
		return err_set(err, -EINVAL, "language_detection_segments: not at least 1");
	int failed = check_temperatures(o, err);
	return failed ? failed : check_clips(o, err);
}
