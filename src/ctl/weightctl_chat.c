/* weightctl run and weightctl complete. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/ctl/answer.h"
#include "src/ctl/interrupt.h"
#include "src/ctl/weightctl.h"

enum { TEXT_MAX = 16 * 1024 * 1024 }; /* of a prompt from standard input, and of a line */

/* What every request has. */
static void add_parameters(yyjson_mut_doc *doc, yyjson_mut_val *object, const struct weightctl *ctl)
{
	const struct {
		const char *key, *number;
	} numbers[] = {{"max_tokens", ctl->max_tokens}, {"temperature", ctl->temperature}, {"seed", ctl->seed}};
	if (ctl->model)
		yyjson_mut_obj_add_str(doc, object, "model", ctl->model);
	for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (numbers[i].number)
			yyjson_mut_obj_add_val(doc, object, numbers[i].key, yyjson_mut_raw(doc, numbers[i].number));
}

/* Text from a command line or a terminal may be malformed UTF-8, which JSON cannot carry. */
static bool is_utf8(const char *text)
{
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_doc_set_root(doc, yyjson_mut_str(doc, text));
	char *json = yyjson_mut_write(doc, 0, NULL);
	free(json);
	yyjson_mut_doc_free(doc);
	return json != NULL;
}

/* --- one line or text from standard input ----------------------------------------------------- */

struct input {
	char *bytes; /* owned */
	size_t n_bytes, capacity;
	bool ended;
};

/* Reads once. 0; -EINTR when a signal came first; -EFBIG. */
static int input_fill(struct input *input, int interrupt_fd)
{
	int rc = interrupt_wait(interrupt_fd, STDIN_FILENO, -1);
	if (rc < 0)
		return rc;
	if (input->n_bytes >= TEXT_MAX)
		return -EFBIG;
	if (input->capacity - input->n_bytes < 4096) {
		char *grown = realloc(input->bytes, 2 * input->capacity + 8192);
		if (!grown)
			return -ENOMEM;
		input->bytes = grown;
		input->capacity = 2 * input->capacity + 8192;
	}
	ssize_t n = read(STDIN_FILENO, input->bytes + input->n_bytes, 4096);
	if (n < 0)
		return -errno;
	input->ended = n == 0;
	input->n_bytes += (size_t)n;
	return 0;
}

/* The next line without its end; *line returns owned. 1; 0 at the end; -EINTR and other errors. */
static int input_line(struct input *input, int interrupt_fd, char **line)
{
	char *end;
	while (!(end = input->n_bytes ? memchr(input->bytes, '\n', input->n_bytes) : NULL) && !input->ended) {
		int rc = input_fill(input, interrupt_fd);
		if (rc < 0)
			return rc;
	}
	size_t n = end ? (size_t)(end - input->bytes) : input->n_bytes, taken = n + (end != NULL);
	if (taken == 0)
		return 0;
	*line = strndup(input->bytes, n);
	if (!*line)
		return -ENOMEM;
	memmove(input->bytes, input->bytes + taken, input->n_bytes - taken);
	input->n_bytes -= taken;
	return 1;
}

/* --- complete --------------------------------------------------------------------------------- */

static int complete(struct weightctl *ctl, const char *prompt)
{
	if (!is_utf8(prompt))
		return weightctl_fail(ctl, EXIT_USAGE, "the prompt is not UTF-8");
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *object = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, object);
	yyjson_mut_obj_add_str(doc, object, "prompt", prompt);
	if (!ctl->max_tokens)
		yyjson_mut_obj_add_uint(doc, object, "max_tokens", 256);
	add_parameters(doc, object, ctl);
	if (!ctl->json)
		yyjson_mut_obj_add_bool(doc, object, "stream", true);
	char *body = yyjson_mut_write(doc, 0, NULL);
	yyjson_mut_doc_free(doc);
	if (!body)
		return weightctl_fail(ctl, EXIT_FAILED, "out of memory");
	int rc;
	if (ctl->json) {
		rc = answer_json(ctl, "/v1/completions", body);
	} else {
		struct answer answer;
		rc = answer_stream(ctl, "/v1/completions", body, &answer);
		if (rc == EXIT_OK || answer.n_bytes)
			putchar('\n');
		answer_fini(&answer);
	}
	free(body);
	return rc;
}

int weightctl_complete(struct weightctl *ctl)
{
	struct input input = {.bytes = NULL};
	const char *prompt = ctl->arguments[0];
	int rc = 0;
	if (!strcmp(prompt, "-")) {
		while (rc == 0 && !input.ended)
			rc = input_fill(&input, ctl->interrupt_fd);
		if (rc == 0 && input.n_bytes && memchr(input.bytes, '\0', input.n_bytes))
			rc = -EILSEQ;
		if (rc == 0) {
			input.bytes[input.n_bytes] = '\0'; /* input_fill leaves room */
			prompt = input.bytes;
		}
	}
	if (rc == -EINTR)
		rc = EXIT_INTERRUPTED;
	else if (rc < 0)
		rc = weightctl_fail(ctl, EXIT_FAILED, "standard input: %s", strerror(-rc));
	else
		rc = complete(ctl, prompt);
	free(input.bytes);
	return rc;
}

/* --- run -------------------------------------------------------------------------------------- */

struct chat {
	struct weightctl *ctl;
	yyjson_mut_doc *doc;	 /* owns the messages */
	yyjson_mut_val *request; /* with "messages" and "stream" */
	yyjson_mut_val *messages;
	bool terminal;
};

static void chat_add(struct chat *chat, const char *role, const char *content)
{
	yyjson_mut_val *message = yyjson_mut_arr_add_obj(chat->doc, chat->messages);
	yyjson_mut_obj_add_str(chat->doc, message, "role", role);
	yyjson_mut_obj_add_strcpy(chat->doc, message, "content", content);
}

static int chat_begin(struct chat *chat)
{
	if (chat->doc)
		yyjson_mut_doc_free(chat->doc);
	chat->doc = yyjson_mut_doc_new(NULL);
	chat->request = yyjson_mut_obj(chat->doc);
	yyjson_mut_doc_set_root(chat->doc, chat->request);
	add_parameters(chat->doc, chat->request, chat->ctl);
	yyjson_mut_obj_add_bool(chat->doc, chat->request, "stream", true);
	chat->messages = yyjson_mut_obj_add_arr(chat->doc, chat->request, "messages");
	if (!chat->messages)
		return weightctl_fail(chat->ctl, EXIT_FAILED, "out of memory");
	if (chat->ctl->system && !is_utf8(chat->ctl->system))
		return weightctl_fail(chat->ctl, EXIT_USAGE, "the system message is not UTF-8");
	if (chat->ctl->system)
		chat_add(chat, "system", chat->ctl->system);
	return EXIT_OK;
}

/* Asks and prints the answer. What was said becomes part of the conversation, an interrupted answer as far as it came;
 * a question that got no answer at all is taken back. */
static int chat_ask(struct chat *chat, const char *question)
{
	struct answer answer;
	if (!is_utf8(question))
		return weightctl_fail(chat->ctl, EXIT_USAGE, "the question is not UTF-8");
	chat_add(chat, "user", question);
	char *body = yyjson_mut_write(chat->doc, 0, NULL);
	if (!body)
		return weightctl_fail(chat->ctl, EXIT_FAILED, "out of memory");
	int rc = answer_stream(chat->ctl, "/v1/chat/completions", body, &answer);
	free(body);
	if (answer.n_bytes || rc == EXIT_OK) {
		putchar('\n');
		chat_add(chat, "assistant", answer.text ? answer.text : "");
	} else {
		yyjson_mut_arr_remove_last(chat->messages);
	}
	answer_fini(&answer);
	return rc;
}

/* A line that begins with '/'. True: it was a command. */
static bool chat_command(struct chat *chat, const char *line, bool *quit)
{
	if (!strcmp(line, "/quit") || !strcmp(line, "/exit") || !strcmp(line, "/bye")) {
		*quit = true;
	} else if (!strcmp(line, "/clear")) {
		*quit = chat_begin(chat) != EXIT_OK;
	} else if (!strcmp(line, "/help") || !strcmp(line, "/?")) {
		printf("/clear  begin a new conversation\n/quit   leave (also Ctrl-D)\nCtrl-C  stop the answer\n");
	} else {
		return false;
	}
	return true;
}

/* Answers an interrupt at the prompt or during an answer: Ctrl-C stays in the program, other signals end it. */
static bool chat_survives_interrupt(struct chat *chat)
{
	int number = interrupt_take(chat->ctl->interrupt_fd);
	if (chat->terminal)
		putchar('\n');
	return chat->terminal && number == SIGINT;
}

static int chat_loop(struct chat *chat)
{
	struct input input = {.bytes = NULL};
	int result = EXIT_OK;
	bool quit = false;
	if (chat->terminal)
		printf("Ask something. /help lists commands, /quit leaves.\n");
	while (!quit) {
		char *line = NULL;
		if (chat->terminal)
			printf(">>> ");
		fflush(stdout);
		int rc = input_line(&input, chat->ctl->interrupt_fd, &line);
		if (rc == -EINTR) {
			input.n_bytes = 0;
			quit = !chat_survives_interrupt(chat);
			result = quit ? EXIT_INTERRUPTED : EXIT_OK;
			continue;
		}
		if (rc <= 0) {
			if (rc < 0)
				result = weightctl_fail(chat->ctl, EXIT_FAILED, "standard input: %s", strerror(-rc));
			else if (chat->terminal)
				putchar('\n');
			break;
		}
		if (line[0] && !chat_command(chat, line, &quit)) {
			result = chat_ask(chat, line);
			if (result == EXIT_INTERRUPTED)
				quit = !chat_survives_interrupt(chat);
			else if (result != EXIT_OK)
				quit = !chat->terminal || result == EXIT_UNREACHABLE;
		}
		free(line);
	}
	free(input.bytes);
	return result;
}

int weightctl_run(struct weightctl *ctl)
{
	struct chat chat = {.ctl = ctl, .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
	int rc = chat_begin(&chat);
	if (rc == EXIT_OK)
		rc = ctl->n_arguments ? chat_ask(&chat, ctl->arguments[0]) : chat_loop(&chat);
	yyjson_mut_doc_free(chat.doc);
	return rc;
}
