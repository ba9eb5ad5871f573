/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A configuration with a card, which has a CDI document, and a network card, which has device
 * information; and what their processes propose.
 */
#include "host-fixture.h"

#include "common/log.h"
#include "common/sealed.h"
#include "supervisor/files/published-files.h"

static char cdi_dir[128], info_dir[128], run_dir[128];
static struct config *config;
static struct published *published;

#define SPEC                                                                             \
	"{'cdiVersion':'0.3.0','kind':'vendor.example/card','devices':[{'name':'card0'," \
	"'containerEdits':{'deviceNodes':[{'path':'/dev/card0','permissions':'rw'}]}}]}"
#define PCI(value) "{'type':'pci','version':'1.1.0','pci':{'pci-address':'" value "'}}"
#define INFO       PCI("0000:03:00.1")

/* Reads a configuration with these resources and directories. */
static inline struct config *load(const char *resources, const char *cdi, const char *info)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *text = NULL;
	struct config *loaded = NULL;
	char path[512];

	assert_true(
		asprintf(&text, "cdi_dir = \"%s\"; device_info_dir = \"%s\";\nresources = ( %s );",
			cdi, info, resources) > 0);
	host_write("/devplugd.conf", text);
	host_path(path, "/devplugd.conf");
	if (config_load(path, &report, &loaded) < 0)
		fail_msg("%s", report.count > 0 ? report.entries[0].text : "no reason given");
	return loaded;
}

#define CARD_OF(class)                                                                        \
	"{ name = \"vendor.example/card\"; driver = \"static\"; match = ( { count = 1; } ); " \
	"cdi_spec = { kind = \"vendor.example/" class "\"; }; }"
#define CARD CARD_OF("card")
#define NIC  "{ name = \"vendor.example/nic\"; driver = \"static\"; match = ( { id = \"n\"; } ); }"

/* Judges files by the resources of a configuration. */
static inline void judge_by(const struct config *accepted, bool complete)
{
	const struct declaration *declarations[8];
	struct published_judges judges = { .declarations = declarations, .complete = complete };

	assert_true(accepted->n_resources <= ARRAY_SIZE(declarations));
	for (size_t i = 0; i < accepted->n_resources; i++)
		declarations[judges.count++] = &accepted->resources[i].declaration;
	published_configure(published, config, &judges);
}

static inline void configure(const char *resources, const char *cdi, const char *info)
{
	struct config *old = config;

	config = load(resources, cdi, info);
	judge_by(config, true);
	(void)config_free(old);
}

/* Removes files that no resource publishes, as with a checkpoint that names the kind, or none
 * (NULL). Returns whether there are later ones. */
static inline bool drop_left(const char *kind, uint64_t until)
{
	_cleanup_strings_ struct strings named = { 0 };

	if (kind)
		assert_int_equal(strings_add(&named, kind, strlen(kind)), 0);
	return published_drop_left(published, &named, until);
}

static inline const struct declaration *find(const char *resource)
{
	const struct resource_config *found = config_find(config, resource);

	assert_non_null(found);
	return &found->declaration;
}

static inline int setup(void **state)
{
	log_setup("test-published", LOG_TARGET_TEXT, LOG_CRIT);
	if (host_setup(state) < 0)
		return -1;
	(void)snprintf(cdi_dir, sizeof(cdi_dir), "%s/deep/cdi", host_root);
	(void)snprintf(info_dir, sizeof(info_dir), "%s/info", host_root);
	(void)snprintf(run_dir, sizeof(run_dir), "%s/run", host_root);
	if (published_new(run_dir, &published) < 0)
		return -1;
	configure(CARD "," NIC, cdi_dir, info_dir);
	return 0;
}

static inline int teardown(void **state)
{
	published = published_free(published);
	config = config_free(config);
	return host_teardown(state);
}

/* A text with ' in place of ". */
static inline int sealed(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	int fd;

	assert_non_null(copy);
	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	fd = sealed_new("test", copy, strlen(copy));
	assert_true(fd >= 0);
	return fd;
}

static inline int take(const char *resource, const char *text, struct error *error)
{
	_cleanup_close_ int fd = sealed(text);

	return published_take(published, find(resource), fd, error);
}

static inline void take_well(const char *resource, const char *text)
{
	struct error error = { 0 };

	if (take(resource, text, &error) < 0)
		fail_msg("%s", error.message);
}

static inline bool is_there(const char *directory, const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	return access(path, F_OK) == 0;
}

static inline void put(const char *directory, const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", directory + strlen(host_root), name);
	host_write(path, "x");
}

#define CARD_FILE "devplugd-vendor.example=card.json"
#define NIC_FILE  "vendor.example-nic-0000:03:00.1-device.json"
