/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what the reader of pod resources sends: refused or read. Any bytes as what the
 * kubelet answers: refused, or written as a table that can be read.
 */
#include "common/pod-table.h"
#include "common/sealed.h"
#include "proto/plugin/pod-answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_table(const void *data, size_t size)
{
	_cleanup_(pod_table_freep) struct pod_table *table = NULL;
	_cleanup_close_ int fd = sealed_new("pods", data, size);
	int r;

	if (fd < 0)
		abort();
	r = pod_table_read(fd, &table);
	if ((r < 0) != !table)
		abort();
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)read_table(data, size);
	for (int question = POD_LIST; question <= POD_ALLOCATABLE; question++) {
		_cleanup_free_ char *text = NULL;
		size_t length;
		FILE *stream = open_memstream(&text, &length);
		int r;

		if (!stream)
			abort();
		r = pod_answer_write((enum pod_question)question, data, size, stream);
		if (fclose(stream) != 0)
			abort();
		if (r >= 0 && read_table(text, length) < 0)
			abort();
	}
	return 0;
}
