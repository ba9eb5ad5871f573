/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only segments that the file does not want writable (PT_LOAD without PF_W) are touched: what the
 * dynamic linker has relocated is in the others. Of these, too, one may have been written to: by
 * relocations in the text, a debugger, a probe of the kernel (uprobe), a patch. Such pages belong
 * to the process and no longer to the file, which pagemap tells, and could not be had again.
 */
#include "common/unused-code.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>

#include "common/util.h"

struct pages {
	int pagemap;
	size_t size; /* of one */
};

/* Documentation/admin-guide/mm/pagemap.rst */
#define IS_PRESENT (1ULL << 63)
#define IS_SWAPPED (1ULL << 62)
#define IS_OF_FILE (1ULL << 61)

/* Whether none of them is other than in the file. */
static bool are_as_in_file(const struct pages *pages, uintptr_t begin, uintptr_t end)
{
	uint64_t entries[512];

	while (begin < end) {
		size_t n =
			MIN_OF((end - begin + pages->size - 1) / pages->size, ARRAY_SIZE(entries));
		off_t offset = (off_t)(begin / pages->size * sizeof(entries[0]));

		if (pread(pages->pagemap, entries, n * sizeof(entries[0]), offset) !=
			(ssize_t)(n * sizeof(entries[0])))
			return false;
		for (size_t i = 0; i < n; i++)
			if (entries[i] & IS_SWAPPED ||
				(entries[i] & IS_PRESENT && !(entries[i] & IS_OF_FILE)))
				return false;
		begin += n * pages->size;
	}
	return true;
}

static int on_object(struct dl_phdr_info *object, size_t size, void *userdata)
{
	const struct pages *pages = userdata;

	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		uintptr_t begin = object->dlpi_addr + segment->p_vaddr;
		uintptr_t end = begin + segment->p_filesz;

		if (segment->p_type != PT_LOAD || segment->p_flags & PF_W || begin == end)
			continue;
		begin -= begin % pages->size;
		if (are_as_in_file(pages, begin, end))
			(void)madvise((void *)begin, end - begin, MADV_DONTNEED);
	}
	return 0;
}

void release_unused_code(void)
{
	_cleanup_close_ int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	struct pages pages = { .pagemap = pagemap, .size = (size_t)sysconf(_SC_PAGESIZE) };

	if (pagemap >= 0)
		(void)dl_iterate_phdr(on_object, &pages);
}
