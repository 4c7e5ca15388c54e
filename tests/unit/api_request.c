/* Requests: every field against hostile values, the rules between fields, and hostile JSON. (What comes out of
 * good ones: api_call.c.) */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/api/document.h"
#include "src/api/fields.h"
#include "tests/unit/suite.h"

/* Endpoints and the smallest body each accepts, without the closing brace. */
static const char *base_of(enum api_endpoint endpoint)
{
	switch (endpoint) {
	case API_CHAT:
	case API_TEMPLATE:
		return "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]";
	case API_COMPLETION:
		return "{\"prompt\":\"hi\"";
	case API_TOKENIZE:
		return "{\"content\":\"hi\"";
	case API_DETOKENIZE:
		return "{\"tokens\":[1]";
	case API_EMBEDDING:
	case API_RESPONSE:
		return "{\"input\":\"hi\"";
	case API_LOAD_ADAPTER:
		return "{\"lora_name\":\"a\",\"lora_path\":\"a.gguf\"";
	case API_UNLOAD_ADAPTER:
		return "{\"lora_name\":\"a\"";
	}
	return NULL;
}

static int read_text(enum api_endpoint endpoint, const char *body, struct api_request *request, struct api_error *error)
{
	memset(error, 0, sizeof *error);
	return api_request_read(request, endpoint, body, strlen(body), error);
}

static const char *const values[] = {"-1",    "0",   "1",     "2147483647", "2147483648", "9223372036854775808",
				     "1e308", "0.5", "\"x\"", "[]",	    "{}",	  "true",
				     "false", "null"};
enum { N_VALUES = sizeof values / sizeof *values };

/* One letter per value above: '+' accepted, '-' a 400 that names the field. */
static const struct verdict {
	enum api_endpoint endpoint;
	const char *field, *verdicts;
} verdicts[] = {
	/*                                          -1 0 1 i31 2^31 2^63 1e308 .5 str [] {} true false null */
	{API_COMPLETION, "model", "--------+----+"},
	{API_COMPLETION, "adapter", "--------+----+"},
	{API_LOAD_ADAPTER, "base_model_name", "--------+----+"},
	{API_LOAD_ADAPTER, "load_inplace", "-----------+++"},
	{API_LOAD_ADAPTER, "is_3d_lora_weight", "------------++"},
	{API_LOAD_ADAPTER, "prompt", "--------------"},
	{API_UNLOAD_ADAPTER, "lora_int_id", "++++++++++++++"},
	{API_UNLOAD_ADAPTER, "lora_path", "--------------"},
	{API_COMPLETION, "lora_name", "--------------"},
	{API_COMPLETION, "stream", "-----------+++"},
	{API_COMPLETION, "stream_options", "-------------+"}, /* {} needs a stream */
	{API_COMPLETION, "max_tokens", "-+++---------+"},
	{API_CHAT, "max_completion_tokens", "-+++---------+"},
	{API_COMPLETION, "stop", "--------++---+"},
	{API_COMPLETION, "ignore_eos", "-----------+++"},
	{API_COMPLETION, "forced_token_ids", "---------+---+"},
	{API_COMPLETION, "seed", "++++++-------+"},
	{API_COMPLETION, "temperature", "-++----+-----+"},
	{API_COMPLETION, "top_p", "-++----+-----+"},
	{API_COMPLETION, "min_p", "-++----+-----+"},
	{API_COMPLETION, "top_k", "-+++---------+"},
	{API_COMPLETION, "presence_penalty", "+++----+-----+"},
	{API_COMPLETION, "frequency_penalty", "+++----+-----+"},
	{API_COMPLETION, "repeat_penalty", "--+----+-----+"},
	{API_COMPLETION, "logprobs", "-++----------+"},
	{API_CHAT, "logprobs", "-----------+++"},
	{API_CHAT, "top_logprobs", "-+-----------+"}, /* 1 needs logprobs */
	{API_COMPLETION, "echo", "-----------+++"},
	{API_COMPLETION, "return_token_ids", "-----------+++"},
	{API_CHAT, "add_generation_prompt", "-----------+++"},
	{API_CHAT, "chat_template_kwargs", "----------+--+"},
	{API_TOKENIZE, "add_special", "-----------+++"},
	{API_TOKENIZE, "parse_special", "-----------+++"},
	{API_COMPLETION, "user", "++++++++++++++"},
	{API_COMPLETION, "n", "--+----------+"},
	{API_CHAT, "n", "--+----------+"},
	{API_COMPLETION, "best_of", "--+----------+"},
	{API_COMPLETION, "suffix", "-------------+"},
	{API_CHAT, "tools", "---------+---+"},
	{API_CHAT, "tool_choice", "-------------+"},
	{API_CHAT, "parallel_tool_calls", "-----------+++"},
	{API_CHAT, "functions", "---------+---+"},
	{API_CHAT, "response_format", "-------------+"},
	{API_CHAT, "logit_bias", "----------+--+"},
	{API_CHAT, "grammar", "--------+----+"},
	{API_CHAT, "json_schema", "--------+-++++"},
	{API_CHAT, "structured_outputs", "----------+--+"},
	{API_CHAT, "guided_json", "--------+-++++"},
	{API_CHAT, "guided_regex", "--------+----+"},
	{API_CHAT, "guided_choice", "-------------+"},
	{API_CHAT, "guided_grammar", "--------+----+"},
	{API_CHAT, "audio", "-------------+"},
	{API_CHAT, "modalities", "-------------+"},
	{API_CHAT, "echo", "------------++"},
	{API_CHAT, "temprature", "--------------"}, /* not a field at all: not even null */
	{API_TOKENIZE, "temperature", "--------------"},
	{API_EMBEDDING, "dimensions", "--++---------+"},
	{API_RESPONSE, "instructions", "--------+----+"},
	{API_RESPONSE, "max_output_tokens", "-+++---------+"},
	{API_RESPONSE, "tools", "---------+---+"},
	{API_RESPONSE, "tool_choice", "-------------+"},
	{API_RESPONSE, "text", "----------+--+"},
	{API_RESPONSE, "metadata", "----------+--+"},
	{API_RESPONSE, "include", "---------+---+"},
	{API_RESPONSE, "reasoning", "----------+--+"},
	{API_RESPONSE, "store", "++++++++++++++"},
	{API_RESPONSE, "background", "------------++"},
	{API_RESPONSE, "previous_response_id", "-------------+"},
	{API_RESPONSE, "temperature", "-++----+-----+"},
	{API_RESPONSE, "n", "--------------"},
	{API_EMBEDDING, "encoding_format", "-------------+"},
};

START_TEST(every_field_takes_what_it_should_and_nothing_else)
{
	const struct verdict *v = &verdicts[_i];
	ck_assert_uint_eq(strlen(v->verdicts), N_VALUES);
	for (int i = 0; i < N_VALUES; i++) {
		char body[256];
		struct api_request request;
		struct api_error error;
		snprintf(body, sizeof body, "%s,\"%s\":%s}", base_of(v->endpoint), v->field, values[i]);
		int rc = read_text(v->endpoint, body, &request, &error);
		ck_assert_msg((rc == 0) == (v->verdicts[i] == '+'), "%s: %s", body,
			      rc ? error.message : "was accepted");
		if (rc) {
			ck_assert_int_eq(error.status, 400);
			ck_assert_str_eq(error.param, v->field);
			ck_assert_ptr_nonnull(strstr(error.message, v->field));
		}
		api_request_fini(&request);
	}
}
END_TEST

/* What names an adapter and where it is; its name's letters and the path are the parent's to judge. */
START_TEST(adapters_are_named)
{
	struct api_request request;
	struct api_error error;
	ck_assert_int_eq(read_text(API_LOAD_ADAPTER, "{\"lora_name\":\"a\",\"lora_path\":\"b/c\"}", &request, &error),
			 0);
	ck_assert_uint_eq(request.lora_name.n_bytes, 1);
	ck_assert_uint_eq(request.lora_path.n_bytes, 3);
	ck_assert(!request.base_model.bytes && !request.load_inplace);
	api_request_fini(&request);
	static const struct {
		enum api_endpoint endpoint;
		const char *body, *param;
	} bad[] = {
		{API_LOAD_ADAPTER, "{\"lora_path\":\"a\"}", "lora_name"},
		{API_LOAD_ADAPTER, "{\"lora_name\":\"a\"}", "lora_path"},
		{API_LOAD_ADAPTER, "{\"lora_name\":\"a\",\"lora_path\":null}", "lora_path"},
		{API_LOAD_ADAPTER, "{\"lora_name\":\"\",\"lora_path\":\"a\"}", "lora_name"},
		{API_LOAD_ADAPTER, "{\"lora_name\":7,\"lora_path\":\"a\"}", "lora_name"},
		{API_UNLOAD_ADAPTER, "{}", "lora_name"},
		{API_UNLOAD_ADAPTER, "{\"lora_name\":[\"a\"]}", "lora_name"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		ck_assert_int_eq(read_text(bad[i].endpoint, bad[i].body, &request, &error), -1);
		ck_assert_int_eq(error.status, 400);
		ck_assert_str_eq(error.param, bad[i].param);
		api_request_fini(&request);
	}
}
END_TEST

/* A field in the table that no row above or below tries is a hole in these tests. */
START_TEST(no_supported_field_is_untested)
{
	static const char *const elsewhere[] = {"messages", "prompt", "content", "tokens", "input", "lora_name", "lora_path"};
	size_t n;
	const struct api_field *field = api_fields(&n);
	for (size_t i = 0; i < n; i++) {
		bool found = field[i].max == 0; /* ignored, or unsupported: a few stand for all */
		for (size_t j = 0; j < sizeof verdicts / sizeof *verdicts; j++)
			found |= strcmp(verdicts[j].field, field[i].name) == 0;
		for (size_t j = 0; j < sizeof elsewhere / sizeof *elsewhere; j++)
			found |= strcmp(elsewhere[j], field[i].name) == 0;
		ck_assert_msg(found, "%s", field[i].name);
	}
}
END_TEST

/* A chat with one tool, f, and a tool_choice. */
#define CHOICE(choice, param)                                                                                      \
	{                                                                                                          \
		API_CHAT,                                                                                          \
			"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\"," \
			"\"function\":{\"name\":\"f\"}}],\"tool_choice\":" choice "}",                             \
			param                                                                                      \
	}

static const struct body_case {
	enum api_endpoint endpoint;
	const char *body;
	const char *param; /* NULL: accepted; else what the 400 names, "": nothing */
} bodies[] = {
	/* values that ask for nothing */
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"response_format\":{\"type\":\"text\"}}",
	 NULL},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"response_format\":{\"type\":\"json_object\"}}", NULL},
	/* constraints */
	{API_COMPLETION,
	 "{\"prompt\":\"x\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}}}}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"response_format\":{\"type\":\"json_schema\"}}", "response_format"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"response_format\":{\"type\":\"structural_tag\"}}", "response_format"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"response_format\":{\"type\":\"text\",\"x\":1}}", "response_format"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"structured_outputs\":{\"regex\":\"a\"}}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"a\"]}}",
	 "structured_outputs"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"structured_outputs\":{\"structural_tag\":\"a\"}}", "structured_outputs"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"guided_choice\":[\"a\",\"\"]}", "guided_choice"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"guided_choice\":[\"a\",\"b\"]}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"guided_regex\":\"a\",\"grammar\":\"b\"}", "grammar"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"guided_regex\":\"a\",\"ignore_eos\":true}", "ignore_eos"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"guided_regex\":\"a\",\"forced_token_ids\":[1]}", "forced_token_ids"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"logit_bias\":{\"5\":-100,\"0\":100}}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"logit_bias\":{\"05\":1}}", "logit_bias"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"logit_bias\":{\"5\":101}}", "logit_bias"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"logit_bias\":{\"-1\":1}}", "logit_bias"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"logit_bias\":{\"4294967296\":1}}", "logit_bias"},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"modalities\":[\"text\"]}", NULL},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":\"auto\"}", NULL},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":\"required\"}",
	 "tool_choice"},
	/* choices */
	{API_COMPLETION, "{\"prompt\":\"x\",\"n\":16}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"n\":17}", "n"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"n\":2,\"best_of\":2}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"n\":2,\"best_of\":3}", "best_of"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"best_of\":2}", "best_of"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"n\":2,\"best_of\":1}", "best_of"},
	/* prompts */
	{API_COMPLETION, "{}", "prompt"},
	{API_COMPLETION, "{\"prompt\":null}", "prompt"},
	{API_COMPLETION, "{\"prompt\":\"\"}", NULL},
	{API_COMPLETION, "{\"prompt\":[]}", "prompt"},
	{API_COMPLETION, "{\"prompt\":[[]]}", "prompt[0]"},
	{API_COMPLETION, "{\"prompt\":{}}", "prompt"},
	{API_COMPLETION, "{\"prompt\":5}", "prompt"},
	{API_COMPLETION, "{\"prompt\":true}", "prompt"},
	{API_COMPLETION, "{\"prompt\":[null]}", "prompt"},
	{API_COMPLETION, "{\"prompt\":[\"a\",\"b\"]}", NULL},
	{API_COMPLETION, "{\"prompt\":[\"a\",1]}", "prompt[1]"},
	{API_COMPLETION, "{\"prompt\":[1,\"a\"]}", "prompt[1]"},
	{API_COMPLETION, "{\"prompt\":[1,2,2147483647]}", NULL},
	{API_COMPLETION, "{\"prompt\":[1,2147483648]}", "prompt[1]"},
	{API_COMPLETION, "{\"prompt\":[-1]}", "prompt[0]"},
	{API_COMPLETION, "{\"prompt\":[1.5]}", "prompt[0]"},
	{API_COMPLETION, "{\"prompt\":[1e308]}", "prompt[0]"},
	{API_COMPLETION, "{\"prompt\":[9223372036854775808]}", "prompt[0]"},
	{API_COMPLETION, "{\"prompt\":[[1],[2,3]]}", NULL},
	{API_COMPLETION, "{\"prompt\":[[1],[]]}", "prompt[1]"},
	{API_COMPLETION, "{\"prompt\":[[1],2]}", "prompt[1]"},
	{API_COMPLETION, "{\"prompt\":[[1],[[2]]]}", "prompt[1][0]"},
	{API_DETOKENIZE, "{\"tokens\":[]}", NULL},
	{API_RESPONSE, "{}", "input"},
	{API_RESPONSE, "{\"input\":[{\"role\":\"user\",\"content\":\"x\"}]}", NULL},
	{API_RESPONSE, "{\"input\":[{\"type\":\"reasoning\",\"summary\":[]}]}", NULL},
	{API_RESPONSE,
	 "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":\"{}\"}]}", NULL},
	{API_RESPONSE,
	 "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":\"[]\"}]}",
	 "input[0].arguments"},
	{API_RESPONSE, "{\"input\":[[]]}", "input[0]"},
	{API_RESPONSE, "{\"input\":[{\"type\":5}]}", "input[0].type"},
	{API_RESPONSE,
	 "{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":\"function\",\"name\":\"f\"}]}",
	 "tools[1].name"},
	{API_RESPONSE, "{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}",
	 "tools[0].name"},
	{API_RESPONSE, "{\"input\":\"x\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\"}}}",
	 "text.format"},
	{API_RESPONSE, "{\"input\":\"x\",\"text\":{\"format\":5}}", "text.format"},
	{API_RESPONSE, "{\"input\":\"x\",\"text\":{\"format\":null,\"verbosity\":null}}", NULL},
	{API_RESPONSE, "{\"input\":\"x\",\"tool_choice\":{\"type\":\"allowed_tools\",\"tools\":[]}}",
	 "tool_choice.mode"},
	{API_RESPONSE, "{\"input\":\"x\",\"top_logprobs\":2}", NULL},
	{API_EMBEDDING, "{}", "input"},
	{API_EMBEDDING, "{\"input\":\"\"}", "input"},
	{API_EMBEDDING, "{\"input\":\"a\",\"encoding_format\":\"float\"}", NULL},
	{API_EMBEDDING, "{\"input\":\"a\",\"encoding_format\":\"hex\"}", "encoding_format"},
	{API_EMBEDDING, "{\"input\":[\"a\",\"b\",\"\"]}", "input[2]"},
	{API_EMBEDDING, "{\"input\":[[1,2],[3,-4]]}", "input[1][1]"},
	{API_EMBEDDING, "{\"input\":\"a\",\"temperature\":1}", "temperature"},
	{API_DETOKENIZE, "{\"tokens\":[1,null]}", "tokens[1]"},
	{API_DETOKENIZE, "{\"tokens\":\"x\"}", "tokens"},
	{API_DETOKENIZE, "{}", "tokens"},
	{API_TOKENIZE, "{\"content\":[]}", "content"},
	{API_TOKENIZE, "{}", "content"},
	{API_TOKENIZE, "{\"content\":\"\"}", NULL},
	/* messages */
	{API_CHAT, "{\"messages\":[]}", "messages"},
	{API_CHAT, "{\"messages\":{}}", "messages"},
	{API_CHAT, "{\"messages\":[1]}", "messages[0]"},
	{API_CHAT, "{\"messages\":[{\"content\":\"x\"}]}", "messages[0].role"},
	{API_CHAT, "{\"messages\":[{\"role\":\"\",\"content\":\"x\"}]}", "messages[0].role"},
	{API_CHAT, "{\"messages\":[{\"role\":5,\"content\":\"x\"}]}", "messages[0].role"},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content"},
	{API_CHAT, "{\"messages\":[{\"role\":\"assistant\"}]}", NULL},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":null}]}", NULL},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":{}}]}", "messages[0].content"},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[]}]}", NULL},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[\"x\"]}]}", "messages[0].content[0]"},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
	 "messages[0].content[0].text"},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]}",
	 "messages[0].content[0].type"},
	/* tools */
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\"}}]}",
	 NULL},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\"},\"strict\":false}}]}",
	 NULL},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[1]}", "tools[0]"},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{}]}", "tools[0]"},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"web_search\"}]}",
	 "tools[0].type"},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\"}]}",
	 "tools[0].function"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\"}},{\"type\":\"function\",\"function\":{}}]}",
	 "tools[1].function.name"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"a b\"}}]}",
	 "tools[0].function.name"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}}]}",
	 "tools[0].function.name"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"description\":5}}]}",
	 "tools[0].function.description"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"parameters\":[]}}]}",
	 "tools[0].function.parameters"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"strict\":1}}]}",
	 "tools[0].function.strict"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"strict\":true}}]}",
	 NULL},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}",
	 "tools[1].function.name"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\"}}],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}",
	 NULL},
	CHOICE("\"required\"", NULL),
	CHOICE("{\"type\":\"function\",\"function\":{\"name\":\"g\"}}", "tool_choice"),
	CHOICE("{\"type\":\"function\",\"function\":{}}", "tool_choice"),
	CHOICE("{\"type\":\"function\"}", "tool_choice"),
	CHOICE("{\"type\":\"custom\",\"custom\":{\"name\":\"f\"}}", "tool_choice"),
	CHOICE("{}", "tool_choice"),
	CHOICE("{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[{\"type\":\"function\","
	       "\"function\":{\"name\":\"f\"}}]}}",
	       NULL),
	CHOICE("{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"none\",\"tools\":[]}}",
	       "tool_choice.allowed_tools.mode"),
	CHOICE("{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[]}}",
	       "tool_choice.allowed_tools.tools"),
	CHOICE("{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[{\"type\":\"function\","
	       "\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]}}",
	       "tool_choice"),
	CHOICE("{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[1]}}",
	       "tool_choice.allowed_tools.tools[0]"),
	CHOICE("\"required\",\"response_format\":{\"type\":\"json_object\"}", "tools"),
	CHOICE("\"auto\",\"response_format\":{\"type\":\"json_object\"}", NULL),
	CHOICE("\"auto\",\"guided_regex\":\"a\"", "guided_regex"),
	CHOICE("\"auto\",\"guided_json\":\"{\"", "guided_json"),
	CHOICE("\"none\",\"guided_regex\":\"a\"", NULL),
	CHOICE("\"required\",\"ignore_eos\":true", "ignore_eos"),
	CHOICE("\"required\",\"forced_token_ids\":[1]", "forced_token_ids"),
	CHOICE("\"auto\",\"forced_token_ids\":[1]", NULL),
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\"}}],\"tool_choice\":\"never\"}",
	 "tool_choice"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\"}}],\"chat_template_kwargs\":{\"tools\":[]}}",
	 "chat_template_kwargs"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"arguments\":\"{}\"}}]}]}",
	 NULL},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"arguments\":\"\"}}]}]}",
	 NULL},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"arguments\":\"[]\"}}]}]}",
	 "messages[0].tool_calls[0].function.arguments"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"arguments\":\"{\"}}]}]}",
	 "messages[0].tool_calls[0].function.arguments"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"arguments\":{}}}]}]}",
	 NULL},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
	 "\"name\":\"f\",\"arguments\":5}}]}]}",
	 "messages[0].tool_calls[0].function.arguments"},
	{API_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[1]}]}", "messages[0].tool_calls[0]"},
	{API_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":1}]}]}",
	 "messages[0].tool_calls[0].id"},
	{API_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"x\"}]}]}",
	 "messages[0].tool_calls[0].type"},
	{API_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\"}]}]}",
	 "messages[0].tool_calls[0].function"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"\"}}]}]}",
	 "messages[0].tool_calls[0].function.name"},
	{API_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":{}}]}",
	 "messages[0].tool_calls"},
	{API_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":null}]}", NULL},
	{API_CHAT, "{\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "messages[0].tool_call_id"},
	{API_CHAT, "{\"messages\":[{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":\"1\"}]}", NULL},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"name\":5}]}", "messages[0].name"},
	/* stops */
	{API_COMPLETION, "{\"prompt\":\"x\",\"stop\":\"\"}", "stop"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"stop\":[\"\"]}", "stop"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"stop\":[null]}", "stop"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"stop\":\"a\\u0000b\"}", "stop"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"stop\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "stop"},
	/* ranges that the common values do not try */
	{API_COMPLETION, "{\"prompt\":\"x\",\"temperature\":2}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"temperature\":2.0001}", "temperature"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"temperature\":-0.0001}", "temperature"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"top_p\":1.0001}", "top_p"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"presence_penalty\":-2.1}", "presence_penalty"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"frequency_penalty\":2.1}", "frequency_penalty"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"repeat_penalty\":10.1}", "repeat_penalty"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"logprobs\":20}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"logprobs\":21}", "logprobs"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"seed\":-9223372036854775808}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"seed\":18446744073709551616}", "seed"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"forced_token_ids\":[-1]}", "forced_token_ids[0]"},
	/* rules between fields */
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"logprobs\":true,\"top_logprobs\":20}",
	 NULL},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"logprobs\":true,\"top_logprobs\":21}",
	 "top_logprobs"},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"logprobs\":false,\"top_logprobs\":5}",
	 "top_logprobs"},
	{API_CHAT,
	 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":3,\"max_completion_tokens\":4}",
	 "max_tokens"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"max_tokens\":1,\"forced_token_ids\":[1,2]}", "forced_token_ids"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"stream_options\":{\"include_usage\":true}}", "stream_options"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"stream\":true,\"stream_options\":{\"include_usage\":1}}",
	 "stream_options"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"stream\":true,\"stream_options\":{\"usage\":true}}", "stream_options"},
	/* hostile JSON */
	{API_COMPLETION, "", ""},
	{API_COMPLETION, "[]", ""},
	{API_COMPLETION, "\"prompt\"", ""},
	{API_COMPLETION, "{\"prompt\":\"x\"} x", ""},
	{API_COMPLETION, "{\"prompt\":\"x\"}{}", ""},
	{API_COMPLETION, "{\"prompt\":\"x\",}", ""},
	{API_COMPLETION, "{\"prompt\":\"x\"", ""},
	{API_COMPLETION, "{\"prompt\":\"\xff\"}", ""},
	{API_COMPLETION, "{\"prompt\":\"\xed\xa0\x80\"}", ""},
	{API_COMPLETION, "{\"prompt\":\"\xc0\xaf\"}", ""},
	{API_COMPLETION, "{\"prompt\":\"\\ud800\"}", ""},
	{API_COMPLETION, "{\"prompt\":\"\\udc00\"}", ""},
	{API_COMPLETION, "{\"prompt\":\"\\ud83d\\ude00\"}", NULL},
	{API_COMPLETION, "{\"prompt\":\"x\",\"temperature\":NaN}", ""},
	{API_COMPLETION, "{\"prompt\":\"x\",\"temperature\":1e999}", ""},
	{API_COMPLETION, "{\"prompt\":\"x\",\"prompt\":\"y\"}", "prompt"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"pr\\u006fmpt\":\"y\"}", "prompt"},
	{API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"role\":\"system\"}]}", "role"},
	{API_COMPLETION, "{\"prompt\":\"x\",\"user\":{\"a\":1,\"b\":2,\"a\":3}}", "a"},
};

START_TEST(bodies_are_accepted_or_refused_with_the_field_named)
{
	const struct body_case *c = &bodies[_i];
	struct api_request request;
	struct api_error error;
	int rc = read_text(c->endpoint, c->body, &request, &error);
	ck_assert_msg((rc == 0) == !c->param, "%s: %s", c->body, rc ? error.message : "was accepted");
	if (rc) {
		ck_assert_int_eq(error.status, 400);
		ck_assert_str_eq(error.param, c->param);
	}
	api_request_fini(&request);
}
END_TEST

static char *repeat(const char *head, const char *part, size_t n, const char *tail)
{
	size_t h = strlen(head), p = strlen(part);
	char *text = malloc(h + n * p + strlen(tail) + 1), *to = text;
	ck_assert_ptr_nonnull(text);
	memcpy(to, head, h);
	to += h;
	for (size_t i = 0; i < n; i++, to += p)
		memcpy(to, part, p);
	memcpy(to, tail, strlen(tail) + 1);
	return text;
}

static void refused(const char *body, const char *code)
{
	struct api_request request;
	struct api_error error;
	ck_assert_int_eq(read_text(API_COMPLETION, body, &request, &error), -1);
	ck_assert_int_eq(error.status, 400);
	ck_assert_str_eq(error.code, code);
	api_request_fini(&request);
}

START_TEST(deep_nesting_is_refused_without_recursion)
{
	char *deep = repeat("{\"prompt\":\"x\",\"user\":", "[", 1 << 19, "");
	refused(deep, "invalid_json");
	free(deep);
	char *open = repeat("{\"prompt\":\"x\",\"user\":", "[", 200000, "");
	char *closed = repeat(open, "]", 200000, "}");
	refused(closed, "nested_too_deep");
	free(open);
	free(closed);
	open = repeat("{\"prompt\":\"x\",\"user\":", "[", API_DEPTH_MAX - 1, "");
	closed = repeat(open, "]", API_DEPTH_MAX - 1, "}");
	struct api_request request;
	struct api_error error;
	ck_assert_int_eq(read_text(API_COMPLETION, closed, &request, &error), 0);
	api_request_fini(&request);
	free(open);
	free(closed);
}
END_TEST

START_TEST(many_keys_and_prompts_are_bounded)
{
	char *keys = malloc(1 << 20), *to = keys;
	ck_assert_ptr_nonnull(keys);
	to += sprintf(to, "{\"prompt\":\"x\",\"user\":{");
	for (int i = 0; i < 60000; i++)
		to += sprintf(to, "%s\"k%d\":0", i ? "," : "", i);
	sprintf(to, ",\"k7\":0}}");
	refused(keys, "duplicate_key");
	free(keys);
	char *prompts = repeat("{\"prompt\":[\"a\"", ",\"a\"", API_PROMPTS_MAX, "]}");
	refused(prompts, "out_of_range");
	free(prompts);
	char *stop = repeat("{\"prompt\":\"x\",\"stop\":\"", "a", CALL_STOP_BYTES_MAX + 1, "\"}");
	refused(stop, "out_of_range");
	free(stop);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("api_request");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 30);
	tcase_add_loop_test(tests, every_field_takes_what_it_should_and_nothing_else, 0,
			    sizeof verdicts / sizeof *verdicts);
	tcase_add_test(tests, adapters_are_named);
	tcase_add_test(tests, no_supported_field_is_untested);
	tcase_add_loop_test(tests, bodies_are_accepted_or_refused_with_the_field_named, 0,
			    sizeof bodies / sizeof *bodies);
	tcase_add_test(tests, deep_nesting_is_refused_without_recursion);
	tcase_add_test(tests, many_keys_and_prompts_are_bounded);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
