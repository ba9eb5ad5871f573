/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when devplugd-cluster learns which claims there are, and which devices they hold. The
 * list is always complete, so one message replaces all before. Claims that are being prepared are
 * in it, but do not cause a message: devplugd-cluster has asked for them itself.
 */
#include "supervisor/helpers/dra-held.h"

#include "common/control-cluster.h"
#include "common/sealed.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/helpers/dra-prepare.h"

int dra_held_send(struct auxiliary *process, const struct dra_claims *claims,
	const struct dra_preparations *preparations, uint64_t *sent)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_HELD);
	uint64_t revision = dra_claims_revision(claims);
	_cleanup_free_ char *text = NULL;
	json_auto_t *document = NULL, *uids = NULL;
	int r;

	if (revision == *sent)
		return 0;
	uids = dra_claims_uids(claims);
	if (!uids || dra_prepare_add_uids(preparations, uids) < 0)
		return -ENOMEM;
	document = json_pack("{s:o, s:O}", "devices", dra_claims_held(claims), "claims", uids);
	/* Sorted, because their order is that of the devices in the slices. */
	text = document ? json_dumps(document, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	message.fds[0] = text ? sealed_new("held", text, strlen(text)) : -ENOMEM;
	if (message.fds[0] < 0) {
		r = message.fds[0];
		message.fds[0] = -EBADF;
		return r;
	}
	r = auxiliary_send(process, &message);
	if (r >= 0)
		*sent = revision;
	return r;
}
