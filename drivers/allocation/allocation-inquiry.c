/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which programs run at Allocate, and which of the container's devices each one receives:
 * an entry of `match` with a program is one question, and the resource's own program another one.
 * The devices come from the snapshot. A question stores its program, so that no later search is
 * needed.
 */
#include "drivers/allocation/allocation-inquiry.h"

#include "drivers/allocation/allocation-build.h"
#include "drivers/allocation/inquiry-documents.h"
#include "drivers/exec/exec-fields.h"
#include "drivers/exec/exec-program.h"

#define TIME_STEP (100 * USEC_PER_MSEC)

struct question {
	struct inquiry *inquiry;
	size_t entry; /* of the first device that has the program */
	const struct allocate_program *program;
	struct exec_given *given;
	size_t n_given;
	struct command *command;
	struct exec_text text;
	bool too_long;
	struct device *answer;
};

struct inquiry {
	const struct declaration *declaration;
	const struct snapshot *snapshot;
	const char *root;
	const struct claim_values *values;
	struct question *questions;
	size_t n_questions, n_answered;
	struct allocation_answers answers;
	inquiry_handler on_end;
	void *userdata;
};

bool inquiry_is_possible(const struct declaration *declaration)
{
	for (size_t i = 0; i < declaration->match.count; i++)
		if (declaration_allocate(declaration, i))
			return true;
	return false;
}

/* --- whom to ask --- */

static int question_about(struct inquiry *inquiry, const struct allocate_program *program,
	size_t entry, struct question **ret)
{
	struct question *question;
	int r;

	for (size_t i = 0; i < inquiry->n_questions; i++)
		if (inquiry->questions[i].program == program) {
			*ret = &inquiry->questions[i];
			return 0;
		}
	r = array_reserve(
		(void **)&inquiry->questions, inquiry->n_questions, sizeof(*inquiry->questions));
	if (r < 0)
		return r;
	question = &inquiry->questions[inquiry->n_questions++];
	*question = (struct question){
		.inquiry = inquiry,
		.entry = entry,
		.program = program,
	};
	*ret = question;
	return 0;
}

static int add_chosen(struct inquiry *inquiry, const struct chosen *chosen)
{
	size_t entry = inquiry->snapshot->units[chosen->unit].device->entry;
	const struct allocate_program *program = declaration_allocate(inquiry->declaration, entry);
	struct question *question;
	int r;

	if (!program)
		return 0;
	r = question_about(inquiry, program, entry, &question);
	if (r >= 0)
		r = array_reserve(
			(void **)&question->given, question->n_given, sizeof(*question->given));
	if (r < 0)
		return r;
	question->given[question->n_given++] =
		(struct exec_given){ .unit = chosen->unit, .replica = chosen->replica };
	return 0;
}

int inquiry_new(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *const *ids, size_t n_ids, const struct claim_values *values,
	struct inquiry **ret, struct error *error)
{
	_cleanup_(inquiry_freep) struct inquiry *inquiry = calloc(1, sizeof(*inquiry));
	_cleanup_build_ struct build build = {
		.declaration = declaration,
		.snapshot = snapshot,
		.root = root,
		.error = error,
	};
	int r;

	if (!inquiry)
		return build_out_of_memory(&build);
	inquiry->declaration = declaration;
	inquiry->snapshot = snapshot;
	inquiry->root = root;
	inquiry->values = values;
	r = build_choose(&build, ids, n_ids);
	if (r < 0)
		return r;
	for (size_t i = 0; i < build.n_chosen; i++)
		if (add_chosen(inquiry, &build.chosen[i]) < 0)
			return build_out_of_memory(&build);
	*ret = TAKE_PTR(inquiry);
	return 0;
}

size_t inquiry_count(const struct inquiry *inquiry)
{
	return inquiry->n_questions;
}

const char *inquiry_program(const struct inquiry *inquiry, size_t index)
{
	return inquiry->questions[index].program->command.items[0];
}

/* --- the end --- */

static void stop(struct inquiry *inquiry)
{
	for (size_t i = 0; i < inquiry->n_questions; i++)
		inquiry->questions[i].command = command_free(inquiry->questions[i].command);
}

/* Adds the program's name, because the pod shows only this text. */
static int explain(const struct question *question, struct error *error)
{
	const struct inquiry *inquiry = question->inquiry;
	const char *id = inquiry->snapshot->units[question->given[0].unit].device->id;
	size_t n_more = 0;

	for (size_t i = 1; i < question->n_given; i++)
		n_more += question->given[i].unit != question->given[i - 1].unit;
	if (n_more > 0)
		error_prefix(error, "device \"%s\" and %zu more of %s", id, n_more,
			inquiry->declaration->name);
	else
		error_prefix(error, "device \"%s\" of %s", id, inquiry->declaration->name);
	return error->code;
}

static const char *timeout_key(const struct question *question)
{
	return question->program == &question->inquiry->declaration->allocate ? "allocate.timeout"
									      : "allocate_timeout";
}

static int judge(
	struct question *question, int status, const struct error *error, struct error *ret_error)
{
	const char *program = question->program->command.items[0];
	struct error bad;
	int r;

	if (question->too_long)
		return error_set(ret_error, -EBADMSG,
			"%s was killed: its answer exceeded %zu bytes; correct the program",
			program, EXEC_DOCUMENT_MAX);
	/* This is the only other reason to stop reading. */
	if (status == -EBADMSG)
		return error_set(ret_error, -ENOMEM, "out of memory");
	if (status == -ETIMEDOUT)
		return error_set(ret_error, status, "%s; make it faster or raise %s",
			error->message, timeout_key(question));
	if (status < 0)
		return error_set(ret_error, -EIO, "%s; correct this and create the pod again",
			error->message);
	r = exec_answer_read(
		question->text.data ?: "", question->text.size, &question->answer, &bad);
	if (r < 0)
		return error_set(ret_error, r,
			"the answer of %s is invalid: %s; correct the program", program,
			bad.message);
	return 0;
}

static bool on_data(const char *data, size_t size, void *userdata)
{
	struct question *question = userdata;

	question->too_long = question->text.size + size > EXEC_DOCUMENT_MAX;
	return !question->too_long && exec_text_add(&question->text, data, size);
}

static void collect(struct inquiry *inquiry)
{
	for (size_t i = 0; i < inquiry->n_questions; i++)
		inquiry->answers.items[inquiry->answers.count++] = (struct allocation_answer){
			.program = inquiry_program(inquiry, i),
			.edits = inquiry->questions[i].answer,
		};
}

static void on_end(int status, const struct error *command_error, void *userdata)
{
	struct question *question = userdata;
	struct inquiry *inquiry = question->inquiry;
	struct error error = { 0 };
	int r;

	question->command = command_free(question->command);
	r = judge(question, status, command_error, &error);
	exec_text_done(&question->text);
	if (r < 0) {
		stop(inquiry);
		r = explain(question, &error);
	} else {
		if (++inquiry->n_answered < inquiry->n_questions)
			return;
		collect(inquiry);
	}
	inquiry->on_end(r, &error, inquiry->userdata);
}

/* --- the beginning --- */

/* The remaining time, rounded up so that the message shows a round number. */
static uint64_t time_left(const struct allocate_program *program, uint64_t waited)
{
	uint64_t steps = (program->timeout - waited + TIME_STEP - 1) / TIME_STEP;

	return MIN_OF(steps * TIME_STEP, program->timeout);
}

static int name_subjects(const struct question *question, struct strings *subjects)
{
	int r = 0;

	for (size_t i = 0; i < question->n_given && r >= 0; i++)
		r = command_subject(subjects, "%s for %s", question->program->command.items[0],
			question->inquiry->snapshot->units[question->given[i].unit].device->id);
	return r;
}

static int start_question(
	struct question *question, sd_event *event, uint64_t since, struct error *error)
{
	const struct inquiry *inquiry = question->inquiry;
	const struct allocate_program *program = question->program;
	uint64_t waited = now_usec(CLOCK_MONOTONIC) - since;
	_cleanup_free_ char **words = exec_program_words(
		&program->command, declaration_program_root(inquiry->declaration, inquiry->root));
	_cleanup_strings_ struct strings subjects = { 0 };
	_cleanup_close_ int input = -EBADF;
	struct error failure;
	int r;

	if (!words || name_subjects(question, &subjects) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	if (waited >= program->timeout)
		return error_set(error, -ETIMEDOUT,
			"%s was not started within %g s because programs of other containers ran; "
			"make it faster or raise %s",
			program->command.items[0], (double)program->timeout / (double)USEC_PER_SEC,
			timeout_key(question));
	input = exec_request_new(inquiry->declaration, inquiry->values, inquiry->snapshot,
		question->given, question->n_given);
	if (input < 0)
		return error_set(error, input, "cannot send the devices to %s: %s",
			program->command.items[0], strerror(-input));
	r = command_start_reading(event, words, &subjects, input, time_left(program, waited),
		on_data, on_end, question, &question->command, &failure);
	if (r == -ENOMEM || r == -EAGAIN || r == -EBUSY)
		return error_set(error, r, "%s", failure.message);
	if (r < 0 && program == &inquiry->declaration->allocate)
		return error_set(error, r, "%s; correct allocate.command", failure.message);
	if (r < 0)
		return error_set(error, r, "%s; correct allocate in entry %zu of match",
			failure.message, question->entry + 1);
	return 0;
}

int inquiry_start(struct inquiry *inquiry, sd_event *event, uint64_t since, inquiry_handler handler,
	void *userdata, struct error *error)
{
	int r;

	assert(inquiry->n_questions > 0);
	inquiry->answers.items = calloc(inquiry->n_questions, sizeof(inquiry->answers.items[0]));
	if (!inquiry->answers.items)
		return error_set(error, -ENOMEM, "out of memory");
	inquiry->on_end = handler;
	inquiry->userdata = userdata;
	for (size_t i = 0; i < inquiry->n_questions; i++) {
		r = start_question(&inquiry->questions[i], event, since, error);
		if (r < 0) {
			stop(inquiry);
			return explain(&inquiry->questions[i], error);
		}
	}
	return 0;
}

const struct allocation_answers *inquiry_answers(const struct inquiry *inquiry)
{
	return &inquiry->answers;
}

struct inquiry *inquiry_free(struct inquiry *inquiry)
{
	if (!inquiry)
		return NULL;
	for (size_t i = 0; i < inquiry->n_questions; i++) {
		struct question *question = &inquiry->questions[i];

		(void)command_free(question->command);
		exec_text_done(&question->text);
		(void)device_unref(question->answer);
		free(question->given);
	}
	free(inquiry->questions);
	free(inquiry->answers.items);
	free(inquiry);
	return NULL;
}
