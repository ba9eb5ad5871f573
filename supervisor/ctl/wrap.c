/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Breaks text into lines that fit a terminal. Texts are UTF-8 without control characters
 * (common/text.h). Without a locale that knows the width of a character, each takes one column.
 */
#include "supervisor/ctl/wrap.h"

#include <sys/ioctl.h>
#include <wchar.h>

/* Narrower terminals break lines themselves. */
#define WIDTH_MIN 40

/* Bytes of the first character, at least 1, and its columns. */
static size_t character(const char *text, int *ret_width)
{
	mbstate_t state = { 0 };
	size_t length = 1, r = 0;
	wchar_t wide;

	if (MB_CUR_MAX > 1)
		r = mbrtowc(&wide, text, MB_CUR_MAX, &state);
	if (r != 0 && r < (size_t)-2) {
		*ret_width = MAX_OF(wcwidth(wide), 0);
		return r;
	}
	while (((unsigned char)text[length] & 0xc0) == 0x80)
		length++;
	*ret_width = 1;
	return length;
}

int text_width(const char *text)
{
	int width = 0, columns;

	for (; *text; text += character(text, &columns), width += columns)
		;
	return width;
}

size_t text_fit(const char *text, int width)
{
	size_t length = 0, step;
	int used = 0, columns;

	while (text[length]) {
		step = character(text + length, &columns);
		if (used + columns > width && length > 0)
			break;
		used += columns;
		length += step;
	}
	return length;
}

size_t wrap_line(const char *text, int width, const char **ret_next)
{
	size_t fit = text_fit(text, width), length = fit;

	*ret_next = NULL;
	if (text[fit] == '\0')
		return fit;
	while (length > 0 && text[length] != ' ')
		length--;
	if (length == 0)
		length = fit;
	*ret_next = text + length + strspn(text + length, " ");
	if (**ret_next == '\0')
		*ret_next = NULL;
	return length;
}

int terminal_width(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
		return 0;
	return size.ws_col < WIDTH_MIN ? 0 : size.ws_col;
}

void print_wrapped(int indent, const char *format, ...)
{
	int width = terminal_width(), before = 0;
	_cleanup_free_ char *text = NULL;
	const char *line, *next;
	va_list ap;
	int r;

	va_start(ap, format);
	r = vformat_text(&text, format, ap);
	va_end(ap);
	if (r < 0)
		return;
	for (line = text; line; line = next, before = indent) {
		size_t length = width > 0 ? wrap_line(line, width - before, &next) : strlen(line);

		if (width == 0)
			next = NULL;
		(void)printf("%*s%.*s\n", before, "", (int)length, line);
	}
}
