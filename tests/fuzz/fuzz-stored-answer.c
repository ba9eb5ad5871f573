/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an answer to Allocate in the kubelet's checkpoint: what is read of it has the form
 * that the supervisor expects.
 */
#include "common/text.h"
#include "supervisor/kubelet/stored-answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	struct booked_answer parts = { 0 };
	struct strings kinds = { 0 };
	const struct stored_answer target = { .kinds = &kinds, .parts = &parts };

	if (!text || stored_answer_read(text, &target) < 0 || parts.ids.count > 0)
		abort();
	for (size_t i = 0; i < parts.nodes.count; i++)
		if (!startswith(parts.nodes.items[i], "/dev/"))
			abort();
	for (size_t i = 0; i < parts.values.count; i++)
		if (!strchr(parts.values.items[i], '=') || !text_is_plain(parts.values.items[i]))
			abort();
	booked_answer_done(&parts);
	strings_done(&kinds);
	return 0;
}
