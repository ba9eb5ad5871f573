/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads NVIDIA's library. Symbols are searched one by one, because each version of the library adds
 * some. Names without a suffix are old functions with old structures, so the table contains the
 * newest names.
 */
#include "nvml/nvml-library.h"

#include <dlfcn.h>

static const struct symbol {
	const char *name;
	size_t offset;
	bool required;
} symbols[] = {
#define NVML_SYMBOL(member, symbol, parameters) { symbol, offsetof(struct nvml, member), true },
	NVML_REQUIRED(NVML_SYMBOL)
#undef NVML_SYMBOL
#define NVML_SYMBOL(member, symbol, parameters) { symbol, offsetof(struct nvml, member), false },
		NVML_OPTIONAL(NVML_SYMBOL)
#undef NVML_SYMBOL
			{ "nvmlErrorString", offsetof(struct nvml, error_string), false },
};

int nvml_load(const char *path, struct nvml *ret, struct error *error)
{
	struct nvml nvml = { 0 };
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

	if (!library)
		return error_set(error, -ENOENT, "%s", dlerror());
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *symbol = dlsym(library, symbols[i].name);

		if (!symbol && symbols[i].required)
			return error_set(error, -ENOENT,
				"%s has no function %s: it is not NVIDIA's library, or is older than driver 450",
				path, symbols[i].name);
		memcpy((char *)&nvml + symbols[i].offset, &symbol, sizeof(symbol));
	}
	*ret = nvml;
	return 0;
}

const char *nvml_result_text(const struct nvml *nvml, unsigned result)
{
	const char *text = nvml->error_string ? nvml->error_string(result) : NULL;

	return text ?: "unknown error";
}
