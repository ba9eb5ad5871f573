/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps "devplugctl top" responsive while the daemon is slow. A thread reads the state, because a
 * hanging daemon or kubelet may delay it for seconds, and keys must work in the meantime. It passes
 * the state through a pipe to the main thread, which then owns it; they share nothing else.
 */
#include <curses.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "supervisor/ctl/top-screen.h"
#include "supervisor/ctl/verb.h"

#define INTERVAL_MSEC 1000
#define CONTROL_L     ('L' & 0x1f) /* the usual key for a terminal that shows rubbish */

struct reading {
	struct daemon_state daemon;
	struct error error; /* code 0: the state is valid */
};

struct reader {
	const struct command_line *line;
	int pipe[2];
};

struct top {
	struct reading *reading; /* the last one that succeeded, or NULL */
	struct error error;      /* of the last one */
	struct top_choice choice;
	struct top_row *rows;
	size_t n_rows;
	size_t selected;
	char *selected_resource, *selected_device; /* NULL: none */
};

static struct reading *reading_free(struct reading *reading)
{
	if (!reading)
		return NULL;
	daemon_state_done(&reading->daemon);
	free(reading);
	return NULL;
}

static void *read_states(void *userdata)
{
	const struct reader *reader = userdata;

	for (;;) {
		struct reading *reading = calloc(1, sizeof(*reading));

		if (reading) {
			(void)daemon_state_read(reader->line->config_file,
				reader->line->runtime_dir, &reading->daemon, &reading->error);
			if (write_all(reader->pipe[1], &reading, sizeof(reading)) < 0)
				return reading_free(reading);
		}
		(void)poll(NULL, 0, INTERVAL_MSEC);
	}
}

static int set_string(char **place, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return -ENOMEM;
	free(*place);
	*place = copy;
	return 0;
}

static bool is_selected(const struct top *top, const struct top_row *row)
{
	const char *id = row->device ? text_of(row->device, "id") : NULL;

	if (row->kind == TOP_HEADING || !top->selected_resource ||
		!streq(text_of(row->resource, "name"), top->selected_resource))
		return false;
	return id && top->selected_device ? streq(id, top->selected_device)
					  : !id && !top->selected_device;
}

/* Stores what is selected, so that the selection follows the row when it moves. */
static int select_row(struct top *top, size_t place)
{
	const struct top_row *row;

	if (top->n_rows == 0)
		return 0;
	top->selected = MIN_OF(place, top->n_rows - 1);
	row = &top->rows[top->selected];
	if (set_string(&top->selected_resource, text_of(row->resource, "name")) < 0)
		return -ENOMEM;
	return set_string(&top->selected_device, row->device ? text_of(row->device, "id") : NULL);
}

static int arrange(struct top *top)
{
	const json_t *resources =
		top->reading ? json_object_get(top->reading->daemon.root, "resources") : NULL;
	struct top_row *rows;
	size_t n_rows;

	if (top_rows(resources, &top->choice, &rows, &n_rows) < 0)
		return -ENOMEM;
	free(top->rows);
	top->rows = rows;
	top->n_rows = n_rows;
	for (size_t i = 0; i < n_rows; i++)
		if (is_selected(top, &rows[i])) {
			top->selected = i;
			return 0;
		}
	return select_row(top, top->selected);
}

static int take_reading(struct top *top, int fd)
{
	struct reading *reading;

	if (RETRY_ON_EINTR(read(fd, &reading, sizeof(reading))) != sizeof(reading))
		return -EIO;
	top->error = reading->error;
	if (reading->error.code < 0) {
		(void)reading_free(reading);
		return 0;
	}
	/* The rows point into the old one. */
	top->n_rows = 0;
	(void)reading_free(top->reading);
	top->reading = reading;
	return arrange(top);
}

/* Steps over headings, which are followed and preceded by other rows. */
static int move_by(struct top *top, long step)
{
	long place = (long)top->selected + step;

	place = MAX_OF(MIN_OF(place, (long)top->n_rows - 1), 0);
	if (top->n_rows > 0 && top->rows[place].kind == TOP_HEADING)
		place += step > 0 && place + 1 < (long)top->n_rows ? 1 : -1;
	return select_row(top, (size_t)place);
}

static int open_or_close(struct top *top)
{
	const char *name;
	int r;

	if (top->n_rows == 0)
		return 0;
	name = text_of(top->rows[top->selected].resource, "name");
	if (top->choice.opened && streq(top->choice.opened, name)) {
		r = set_string(&top->selected_device, NULL);
		name = NULL;
	} else {
		r = 0;
	}
	if (r >= 0)
		r = set_string(&top->choice.opened, name);
	return r < 0 ? r : arrange(top);
}

/* Returns 1 to go on, 0 to quit, or -ENOMEM. */
static int on_key(struct top *top, int key)
{
	long page = (long)top_screen_rows();
	int r = 0;

	switch (key) {
	case 'q':
		return 0;
	case 's':
		top->choice.sort = (top->choice.sort + 1) % (unsigned)top_n_sorts;
		r = arrange(top);
		break;
	case 'r':
		top->choice.reverse = !top->choice.reverse;
		r = arrange(top);
		break;
	case '\n':
	case '\r':
	case ' ':
	case KEY_ENTER:
		r = open_or_close(top);
		break;
	case KEY_UP:
	case 'k':
		r = move_by(top, -1);
		break;
	case KEY_DOWN:
	case 'j':
		r = move_by(top, 1);
		break;
	case KEY_PPAGE:
		r = move_by(top, -page);
		break;
	case KEY_NPAGE:
		r = move_by(top, page);
		break;
	case KEY_HOME:
		r = select_row(top, 0);
		break;
	case KEY_END:
		r = select_row(top, top->n_rows);
		break;
	case KEY_RESIZE: /* The content of the terminal is unknown now. */
	case CONTROL_L:
		(void)clearok(stdscr, TRUE);
		break;
	default:
		break;
	}
	return r < 0 ? r : 1;
}

static void draw(const struct top *top)
{
	const struct top_view view = {
		.daemon = top->reading ? &top->reading->daemon : NULL,
		.failure = top->error.code < 0 ? top->error.message : "",
		.choice = &top->choice,
		.rows = top->rows,
		.n_rows = top->n_rows,
		.selected = top->selected,
	};

	top_screen_draw(&view);
}

static int run(struct top *top, int fd)
{
	int r = 1;

	while (r > 0) {
		struct pollfd waiting[] = {
			{ .fd = STDIN_FILENO, .events = POLLIN },
			{ .fd = fd, .events = POLLIN },
		};
		int key;

		draw(top);
		/* A signal that changes the size ends this, too, and is then read as a key. */
		if (poll(waiting, ARRAY_SIZE(waiting), -1) < 0 && errno != EINTR)
			return -errno;
		if (waiting[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			return 0;
		while (r > 0 && (key = getch()) != ERR)
			r = on_key(top, key);
		if (r > 0 && waiting[1].revents)
			r = take_reading(top, fd) < 0 ? -EIO : 1;
	}
	return r;
}

static void top_done(struct top *top)
{
	(void)reading_free(top->reading);
	free(top->rows);
	free(top->choice.opened);
	free(top->selected_resource);
	free(top->selected_device);
}

/* A resource that was named must be there. */
static int open_named(struct top *top, const struct command_line *line, struct error *error)
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	int r;

	if (!line->subject)
		return 0;
	r = daemon_state_read(line->config_file, line->runtime_dir, &daemon, error);
	if (r >= 0)
		r = daemon_state_select(&daemon, line->subject, error);
	if (r >= 0 &&
		(set_string(&top->choice.opened, line->subject) < 0 ||
			set_string(&top->selected_resource, line->subject) < 0))
		r = error_set(error, -ENOMEM, "out of memory");
	return r;
}

/* The thread leaves signals to the main thread, whose poll() they are to end. */
static int start_reader(struct reader *reader)
{
	sigset_t all, before;
	pthread_t thread;
	int r;

	(void)sigfillset(&all);
	r = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (r == 0)
		r = pthread_create(&thread, NULL, read_states, reader);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r == 0 ? -pthread_detach(thread) : -r;
}

static int start(struct top *top, const struct command_line *line, struct error *error)
{
	/* Static, because the thread that uses it runs until the process ends. */
	static struct reader reader;
	int r;

	r = open_named(top, line, error);
	if (r < 0)
		return r;
	reader.line = line;
	if (pipe2(reader.pipe, O_CLOEXEC) < 0)
		return error_set(error, -errno, "cannot make a pipe: %s", strerror(errno));
	r = top_screen_open();
	if (r < 0)
		return error_set(error, r, "the terminal type \"%s\" is not known; set TERM",
			getenv("TERM") ?: "");
	(void)nodelay(stdscr, TRUE);
	r = start_reader(&reader);
	if (r >= 0)
		r = run(top, reader.pipe[0]);
	top_screen_close();
	return r < 0 ? error_set(error, r, "%s", strerror(-r)) : 0;
}

int command_top(const struct command_line *line)
{
	_cleanup_(top_done) struct top top = { 0 };
	struct error error = { 0 };

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		(void)fputs("devplugctl: \"top\" needs a terminal; use \"status\" or \"devices\"\n",
			stderr);
		return EXIT_FAILURE;
	}
	if (start(&top, line, &error) < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
