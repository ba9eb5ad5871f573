/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws "devplugctl top". From the top: a line about the node, a line about its worst problem, the
 * table, some lines about the selected row, and the keys. Everything fits 80 columns; a wider
 * terminal leaves more to names and reasons.
 */
#include "supervisor/ctl/top-screen.h"

#include <curses.h>

#include "common/text.h"
#include "supervisor/ctl/notices.h"
#include "supervisor/ctl/show-usage.h"
#include "supervisor/ctl/show.h"
#include "supervisor/ctl/table.h"
#include "supervisor/ctl/wrap.h"

#define GAP          2
#define HEAD_LINES   3 /* node, trouble, heading */
#define DETAIL_LINES 3
#define FOOT_LINES   (DETAIL_LINES + 1)

static const struct {
	const char *heading, *member;
	int width;
} columns[] = {
	{ "STATE", "state", 11 },
	{ "OFFERED", "offered", 7 },
	{ "HEALTHY", "healthy", 7 },
	{ "IN USE", "in_use", 6 },
	{ "FREE", "free", 6 },
};

/* Where devices have their pods. */
#define STATE_COLUMN 0

static bool colours;

static attr_t attribute_of(enum colour colour)
{
	return colours && colour != COLOUR_NONE ? COLOR_PAIR(colour) : A_NORMAL;
}

int top_screen_open(void)
{
	/* It is never freed, because the terminal uses it until the process ends. */
	if (!newterm(NULL, stdout, stdin))
		return -EINVAL;
	(void)cbreak();
	(void)noecho();
	(void)keypad(stdscr, TRUE);
	(void)set_escdelay(25);
	(void)curs_set(0);
	colours = terminal_wants_colours() && has_colors();
	if (colours) {
		(void)start_color();
		(void)use_default_colors();
		(void)init_pair(COLOUR_GOOD, COLOR_GREEN, -1);
		(void)init_pair(COLOUR_BAD, COLOR_RED, -1);
		(void)init_pair(COLOUR_BETWEEN, COLOR_YELLOW, -1);
	}
	return 0;
}

void top_screen_close(void)
{
	(void)endwin();
}

size_t top_screen_rows(void)
{
	return (size_t)MAX_OF(LINES - HEAD_LINES - FOOT_LINES, 1);
}

/* Prints a text in a field of that width; a text that is too long ends in dots. */
static void put(int y, int x, int width, attr_t attributes, const char *text)
{
	int available = MIN_OF(width, COLS - x);
	bool cut = available > 3 && text_width(text) > available;

	if (available <= 0 || *text == '\0')
		return;
	(void)attron(attributes);
	(void)mvaddnstr(y, x, text, (int)text_fit(text, cut ? available - 3 : available));
	if (cut)
		(void)addstr("...");
	(void)attroff(attributes);
}

/* The width of the column before the state; the rest is as wide as its heading. */
static int name_width(const struct top_view *view)
{
	int others = 0, widest = (int)strlen("RESOURCE");

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		others += GAP + columns[i].width;
	for (size_t i = 0; i < view->n_rows; i++) {
		const struct top_row *row = &view->rows[i];
		const char *name =
			row->device ? text_of(row->device, "id") : text_of(row->resource, "name");

		widest = MAX_OF(widest, text_width(name) + (row->device ? GAP : 0));
	}
	return MAX_OF(MIN_OF(widest, COLS - others), 8);
}

static void draw_node(const struct top_view *view)
{
	static const char *const members[] = { "offered", "healthy", "in_use", "free" };
	const json_t *resources = json_object_get(view->daemon->root, "resources");
	long long sums[ARRAY_SIZE(members)] = { 0 };
	char text[256], numbers[64], now[TEXT_TIME_MAX];
	json_t *resource;
	size_t i;

	json_array_foreach(resources, i, resource)
	{
		for (size_t k = 0; k < ARRAY_SIZE(members); k++)
			sums[k] += integer_of(resource, members[k]);
	}
	(void)snprintf(numbers, sizeof(numbers), ", %lld in use, %lld free", sums[2], sums[3]);
	(void)snprintf(text, sizeof(text), "%zu resource%s, %lld device%s: %lld healthy%s",
		json_array_size(resources), json_array_size(resources) == 1 ? "" : "s", sums[0],
		sums[0] == 1 ? "" : "s", sums[1],
		view->daemon->unanswered.code == 0 &&
				*text_of(view->daemon->root, "pods_failure") == '\0'
			? numbers
			: "");
	put(0, 0, COLS, A_BOLD, text);
	text_time(now_usec(CLOCK_REALTIME), now);
	if (text_width(text) + GAP + (int)strlen(now) <= COLS)
		put(0, COLS - (int)strlen(now), COLS, A_NORMAL, now);
}

/* The worst problem of the whole node. */
static void draw_trouble(const struct top_view *view)
{
	const struct daemon_state *daemon = view->daemon;
	const char *pods_failure = text_of(daemon->root, "pods_failure");
	char text[1280] = "";

	if (*view->failure)
		(void)snprintf(text, sizeof(text), "%s", view->failure);
	else if (daemon->unanswered.code < 0)
		(void)snprintf(text, sizeof(text), "%s", daemon->unanswered.message);
	else if (json_is_true(json_object_get(daemon->root, "on_last_accepted")))
		(void)snprintf(text, sizeof(text),
			"The configuration is not valid; the last accepted one is applied");
	else if (json_is_true(json_object_get(daemon->root, "reload_failed")))
		(void)snprintf(text, sizeof(text), "The last reload failed; see the log");
	else if (*pods_failure)
		(void)snprintf(text, sizeof(text), "Pods are not known: %s", pods_failure);
	put(1, 0, COLS, attribute_of(COLOUR_BAD) | A_BOLD, text);
}

static void draw_heading(int width)
{
	int x = width;

	(void)attron(A_REVERSE);
	(void)mvhline(2, 0, ' ', COLS);
	(void)attroff(A_REVERSE);
	put(2, 0, width, A_REVERSE, "RESOURCE");
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		put(2, x + GAP, columns[i].width, A_REVERSE, columns[i].heading);
		x += GAP + columns[i].width;
	}
}

static void draw_resource(int y, int width, const json_t *resource, attr_t attributes)
{
	const char *state = text_of(resource, "state");
	int x = width;

	put(y, 0, width, attributes, text_of(resource, "name"));
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		const char *member = columns[i].member;
		enum colour colour = COLOUR_NONE;
		char number[32];

		(void)snprintf(
			number, sizeof(number), "%lld", (long long)integer_of(resource, member));
		if (json_is_null(json_object_get(resource, member)))
			(void)snprintf(number, sizeof(number), "-");
		if (i == STATE_COLUMN)
			colour = colour_of_state(state);
		else if (streq(member, "healthy") &&
			integer_of(resource, "healthy") < integer_of(resource, "offered"))
			colour = COLOUR_BAD;
		put(y, x + GAP, columns[i].width, attributes | attribute_of(colour),
			i == STATE_COLUMN ? state : number);
		x += GAP + columns[i].width;
	}
}

static void draw_device(int y, int width, const struct top_row *row, attr_t attributes)
{
	_cleanup_free_ char *holders = usage_describe(row->resource, row->device);
	const char *health = text_of(row->device, "health");
	_cleanup_free_ char *reason = notices_add(row->device);
	int x = width + GAP;

	put(y, GAP, width - GAP, attributes, text_of(row->device, "id"));
	put(y, x, columns[STATE_COLUMN].width, attributes | attribute_of(colour_of_health(health)),
		health);
	x += columns[STATE_COLUMN].width + GAP;
	put(y, x, COLS - x, attributes, holders ?: "");
	x += text_width(holders ?: "") + GAP;
	put(y, x, COLS - x, attributes, reason ?: "");
}

static void draw_row(int y, int width, const struct top_row *row, bool selected)
{
	attr_t attributes = selected ? A_REVERSE : A_NORMAL;

	if (selected) {
		(void)attron(A_REVERSE);
		(void)mvhline(y, 0, ' ', COLS);
		(void)attroff(A_REVERSE);
	}
	if (row->kind == TOP_RESOURCE) {
		draw_resource(y, width, row->resource, attributes | A_BOLD);
	} else if (row->kind == TOP_DEVICE) {
		draw_device(y, width, row, attributes);
	} else if (json_array_size(json_object_get(row->resource, "devices")) == 0) {
		put(y, GAP, COLS, A_DIM, "no device");
	} else {
		put(y, GAP, width, A_DIM, "DEVICE");
		put(y, width + GAP, COLS, A_DIM, "HEALTH");
		put(y, width + columns[STATE_COLUMN].width + 2 * GAP, COLS, A_DIM,
			"USED BY, REASON");
	}
}

static void draw_lines(int y, int count, const char *text)
{
	for (int i = 0; i < count && text; i++) {
		const char *next;
		size_t length = wrap_line(text, COLS, &next);

		(void)mvaddnstr(y + i, 0, text, (int)length);
		text = next;
	}
}

/* Prints the details of the selected row that do not fit into its columns. */
static void draw_detail(const struct top_row *row)
{
	const json_t *subject = row->device ?: row->resource;
	_cleanup_free_ char *holders = NULL, *text = NULL, *noticed = NULL;
	const char *reason = text_of(subject, "reason");
	int r;

	if (row->device) {
		holders = usage_describe(row->resource, row->device);
		noticed = notices_add(row->device);
		reason = noticed ?: "";
		r = format_text(&text, "%s: %s since %s, used by: %s%s%s", text_of(subject, "id"),
			text_of(subject, "health"), text_of(subject, "since"), holders ?: "",
			*reason ? ". " : "", reason);
	} else {
		r = format_text(&text,
			"%s: %s since %s, process %lld, session %lld, %lld restart%s%s%s",
			text_of(subject, "name"), text_of(subject, "state"),
			text_of(subject, "since"), (long long)integer_of(subject, "pid"),
			(long long)integer_of(subject, "session"),
			(long long)integer_of(subject, "restarts"),
			integer_of(subject, "restarts") == 1 ? "" : "s", *reason ? ". " : "",
			reason);
	}
	if (r >= 0)
		draw_lines(LINES - FOOT_LINES, DETAIL_LINES, text);
	else
		text = NULL;
}

static void draw_keys(const struct top_choice *choice)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "q quit   enter open   s sort: %s%s   r reverse",
		top_sorts[choice->sort], choice->reverse ? ", reversed" : "");
	put(LINES - 1, 0, COLS - 1, A_DIM, text);
}

void top_screen_draw(const struct top_view *view)
{
	size_t visible = top_screen_rows(), first;
	int width = name_width(view);

	(void)erase();
	if (view->daemon) {
		draw_node(view);
		draw_trouble(view);
	}
	draw_heading(width);
	/* The selected row is at the bottom once the first page is left. */
	first = view->selected < visible ? 0 : view->selected - visible + 1;
	for (size_t i = first; i < view->n_rows && i - first < visible; i++)
		draw_row(HEAD_LINES + (int)(i - first), width, &view->rows[i], i == view->selected);
	if (LINES >= HEAD_LINES + 1 + FOOT_LINES && view->selected < view->n_rows)
		draw_detail(&view->rows[view->selected]);
	draw_keys(view->choice);
	(void)refresh();
}
