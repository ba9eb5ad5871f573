/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every case for every resource. A plugin that could not be made to serve is not tried again
 * for each case: the first case fails ("not ok"), and the others are skipped.
 */
#include "kubelet/conformance/conformance.h"

#include <signal.h>
#include <sys/resource.h>

#include "kubelet/conformance/api-server.h"
#include "kubelet/conformance/trial-report.h"

static const struct case_table *const plugin_tables[] = {
	&registration_cases,
	&list_cases,
	&allocation_cases,
	&preference_cases,
	&restart_cases,
	&hostile_cases,
};
static const struct case_table *const driver_tables[] = {
	&dra_registration_cases,
	&dra_claim_cases,
	&dra_health_cases,
	&dra_slice_cases,
	&dra_server_cases,
};

/* The next case of the tested kind, beginning with case number `*at`. */
static const struct conformance_case *next_case(bool dra, size_t *at)
{
	const struct case_table *const *tables = dra ? driver_tables : plugin_tables;
	size_t n_tables = dra ? ARRAY_SIZE(driver_tables) : ARRAY_SIZE(plugin_tables);
	size_t before = 0;

	for (size_t i = 0; i < n_tables; before += tables[i++]->n)
		if (*at - before < tables[i]->n)
			return &tables[i]->cases[(*at)++ - before];
	return NULL;
}

static bool parse_number(const char **text, unsigned long *ret)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	*ret = strtoul(*text, &end, 10);
	*text = end;
	return true;
}

/* Whether "3,7-9" has the number; -EINVAL if the list is malformed. */
static int is_selected(const char *list, unsigned number)
{
	int selected = 0;

	if (!list)
		return 1;
	for (;;) {
		unsigned long first, last;

		if (!parse_number(&list, &first))
			return -EINVAL;
		last = first;
		if (*list == '-') {
			list++;
			if (!parse_number(&list, &last))
				return -EINVAL;
		}
		if (number >= first && number <= last)
			selected = 1;
		if (*list == '\0')
			return selected;
		if (*list++ != ',')
			return -EINVAL;
	}
}

static size_t count_selected(bool dra, const char *list)
{
	const struct conformance_case *one;
	size_t at = 0, n = 0;

	while ((one = next_case(dra, &at)))
		n += is_selected(list, one->number) > 0;
	return n;
}

bool conformance_selects(const char *list)
{
	return is_selected(list, 0) >= 0 &&
		count_selected(false, list) + count_selected(true, list) > 0;
}

struct run {
	struct trial trial;
	struct report *report;
	bool dead; /* the plugin was started and did not begin to serve */
	bool failed;
};

/* Whether the needs of the case can be met; sets the message if not. */
static bool check_needs(struct trial *trial, unsigned needs)
{
	const struct conformance_hooks *hooks = &trial->options->hooks;

	if (needs & NEEDS_COMMAND && !trial_owns_plugin(trial))
		(void)trial_skip(trial, "the tool did not start the plugin; give --plugin-command");
	else if (needs & NEEDS_HEALTH && (!hooks->fail || !hooks->heal))
		(void)trial_skip(trial, "give --fail-command and --heal-command");
	else if (needs & NEEDS_PLUG && (!hooks->unplug || !hooks->plug))
		(void)trial_skip(trial, "give --unplug-command and --plug-command");
	else if (needs & NEEDS_API && !trial->options->apiserver)
		(void)trial_skip(
			trial, "give --apiserver, whose claims and slices the driver uses");
	else if (needs & NEEDS_ROOT && geteuid() != 0)
		(void)trial_skip(trial, "needs root");
	else
		return true;
	return false;
}

static enum outcome judge(struct run *run, const struct conformance_case *self)
{
	struct trial *trial = &run->trial;

	if (!check_needs(trial, self->needs))
		return OUTCOME_SKIP;
	if (run->dead)
		return trial_skip(trial, "the plugin does not serve");
	if (self->needs & NEEDS_SERVING && !trial_prepare(trial)) {
		run->dead = true;
		return run->failed ? OUTCOME_SKIP : OUTCOME_NOT_OK;
	}
	if (self->needs & NEEDS_REGISTER && trial->watched)
		return trial_skip(trial,
			"the plugin registers through %s and does not call Register",
			trial->options->plugins_registry);
	if (self->needs & NEEDS_CLAIM && trial->options->apiserver && claims_count(trial) == 0 &&
		!api_make_claims(trial))
		return OUTCOME_NOT_OK;
	if (self->needs & NEEDS_CLAIM && claims_count(trial) == 0)
		return trial_skip(trial, "%s",
			trial->options->apiserver
				? "the driver has published no device that is free of taints"
				: "give a --claim with a device of the driver");
	if (self->needs & NEEDS_DEVICE && trial_healthy(trial) == 0)
		return trial_skip(trial, "the resource has no healthy device");
	return self->run(trial, self);
}

static void run_case(struct run *run, const struct conformance_case *self)
{
	uint64_t began = manager_now();
	enum outcome outcome;

	trial_forget(&run->trial);
	outcome = judge(run, self);

	if (run->trial.interrupted)
		return;
	if (run->trial.panic[0])
		outcome = trial_fail(&run->trial, "%s", run->trial.panic);
	if (outcome == OUTCOME_NOT_OK) {
		trial_mention_end(&run->trial);
		run->failed = run->trial.plugin_is_suspect = true;
	}
	report_add(run->report, self, &run->trial, outcome, manager_now() - began);
}

static void run_resource(struct run *run, const char *resource)
{
	struct trial *trial = &run->trial;
	const struct conformance_case *one;
	size_t at = 0;

	if (resource) {
		free(trial->resource);
		trial->resource = strdup(resource);
		trial->counts = (struct trial_counts){};
		/* The next kubelet finds the sockets of all drivers again. */
		if (trial->options->dra)
			trial_kill_kubelet(trial);
	}
	while (!trial->interrupted && (one = next_case(trial->options->dra, &at)))
		if (is_selected(trial->options->cases, one->number) > 0)
			run_case(run, one);
}

static void use_all_descriptors(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

int conformance_run(const struct conformance_options *options, struct error *error)
{
	size_t n_resources = MAX_OF(options->n_resources, (size_t)1);
	struct run run = {};
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	use_all_descriptors();
	r = claims_check(options->claims, error);
	if (r < 0)
		return r;
	r = trial_init(&run.trial, options, error);
	if (r < 0)
		return r;
	r = api_begin(&run.trial, error);
	if (r < 0) {
		trial_done(&run.trial);
		return r;
	}
	r = report_new(options->junit, count_selected(options->dra, options->cases) * n_resources,
		&run.report, error);
	if (r >= 0) {
		for (size_t i = 0; i < n_resources; i++)
			run_resource(&run, options->n_resources > 0 ? options->resources[i] : NULL);
		if (run.trial.interrupted)
			report_bail_out(run.report, "interrupted");
		r = report_finish(run.report, error);
	}
	run.report = report_free(run.report);
	api_clean(&run.trial);
	trial_done(&run.trial);
	return r < 0 ? r : run.failed || run.trial.interrupted;
}

static void list_cases_of(bool dra)
{
	const struct conformance_case *self;
	size_t at = 0;

	while ((self = next_case(dra, &at))) {
		(void)printf(
			"%u %s: %s\n    %s\n", self->number, self->name, self->title, self->reason);
		if (self->issue > 0)
			(void)printf("    https://github.com/kubernetes/kubernetes/issues/%u\n",
				self->issue);
	}
}

void conformance_list(void)
{
	list_cases_of(false);
	list_cases_of(true);
}
