/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how devplugctl shows what probes have found about a device that may be healthy.
 */
#include "supervisor/ctl/notices.h"

#include "common/finding.h"
#include "common/json-read.h"
#include "supervisor/ctl/members.h"

json_t *notices_clean(const json_t *device)
{
	const json_t *findings = json_object_get(device, "findings"), *finding;
	json_t *clean = json_array();
	size_t i;

	json_array_foreach(findings, i, finding)
	{
		const char *reason = text_of(finding, "reason");
		enum probe_severity severity = finding_severity(text_of(finding, "severity"));

		if (i < FINDINGS_MAX)
			(void)json_array_append_new(clean,
				json_pack("{s:s, s:s, s:o}", "reason",
					finding_reason_is_valid(reason) ? reason : "", "severity",
					probe_severities[severity], "text",
					clean_text_of(finding, "text")));
	}
	return clean;
}

const json_t *notices_get(const json_t *device, size_t at)
{
	const json_t *finding = json_array_get(json_object_get(device, "findings"), at);

	return finding && finding_severity(text_of(finding, "severity")) == SEVERITY_NOTICE
		? finding
		: NULL;
}

static size_t count(const json_t *device)
{
	return json_array_size(json_object_get(device, "findings"));
}

bool notices_exist(const json_t *device)
{
	for (size_t i = 0; i < count(device); i++)
		if (notices_get(device, i))
			return true;
	return false;
}

char *notices_name(const json_t *finding)
{
	const char *reason = text_of(finding, "reason");
	char *name = NULL;

	(void)format_text(&name, "notice%s%s", *reason ? " " : "", reason);
	return name;
}

char *notices_add(const json_t *device)
{
	const char *reason = text_of(device, "reason");
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	(void)fputs(reason, stream);
	for (size_t i = 0; i < count(device); i++) {
		const json_t *notice = notices_get(device, i);
		_cleanup_free_ char *name = notice ? notices_name(notice) : NULL;

		if (name)
			(void)fprintf(stream, "%s%s: %s", ftell(stream) > 0 ? "; " : "", name,
				text_of(notice, "text"));
	}
	(void)fclose(stream);
	return text;
}
