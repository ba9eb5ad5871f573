/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only segments that are not writable by their file (PT_LOAD without PF_W) are touched: what the
 * dynamic linker has relocated is in the others and cannot be had again. An object with relocations
 * in its text (DT_TEXTREL) is left alone.
 */
#include "common/unused-code.h"

#include <link.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

static bool has_relocated_text(const struct dl_phdr_info *object, const ElfW(Phdr) * dynamic)
{
	const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(object->dlpi_addr + dynamic->p_vaddr);

	for (; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_TEXTREL ||
			(entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL)))
			return true;
	return false;
}

static int on_object(struct dl_phdr_info *object, size_t size, void *userdata)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_DYNAMIC &&
			has_relocated_text(object, &object->dlpi_phdr[i]))
			return 0;
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		uintptr_t begin = object->dlpi_addr + segment->p_vaddr;
		uintptr_t end = begin + segment->p_filesz;

		if (segment->p_type != PT_LOAD || segment->p_flags & PF_W)
			continue;
		begin &= ~(page - 1);
		(void)madvise((void *)begin, end - begin, MADV_DONTNEED);
	}
	return 0;
}

void release_unused_code(void)
{
	(void)dl_iterate_phdr(on_object, NULL);
}
