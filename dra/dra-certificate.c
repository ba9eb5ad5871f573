/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the common name in a certificate's subject. libcurl's TLS library may be any, so the few
 * levels of DER (X.690) above the subject (RFC 5280, 4.1) are read here. Every length is checked
 * against what encloses it.
 */
#include "dra/dra-certificate.h"

#include "common/base64.h"

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END   "-----END CERTIFICATE-----"

enum { TAG_OID = 0x06, TAG_SEQUENCE = 0x30, TAG_SET = 0x31, TAG_VERSION = 0xa0 };

struct der {
	const uint8_t *data;
	size_t size;
};

/* Takes the first value of `in`. Returns its tag, or -EBADMSG. */
static int take(struct der *in, struct der *ret)
{
	size_t head = 2, length;
	int tag;

	if (in->size < head)
		return -EBADMSG;
	tag = in->data[0];
	length = in->data[1];
	if (length & 0x80) {
		size_t n = length & 0x7f;

		if (n == 0 || n > 3 || in->size < head + n)
			return -EBADMSG;
		length = 0;
		for (size_t i = 0; i < n; i++)
			length = length << 8 | in->data[head + i];
		head += n;
	}
	if (length > in->size - head)
		return -EBADMSG;
	*ret = (struct der){ .data = in->data + head, .size = length };
	in->data += head + length;
	in->size -= head + length;
	return tag;
}

/* Takes a value with this tag. */
static int take_tag(struct der *in, int tag, struct der *ret)
{
	return take(in, ret) == tag ? 0 : -EBADMSG;
}

static int find_subject(struct der certificate, struct der *ret)
{
	struct der outer, fields, skipped, first;
	int r;

	r = take_tag(&certificate, TAG_SEQUENCE, &outer);
	if (r >= 0)
		r = take_tag(&outer, TAG_SEQUENCE, &fields);
	if (r < 0)
		return r;
	/* The version is optional; serial number, signature, issuer and validity follow. */
	first = fields;
	if (take(&first, &skipped) == TAG_VERSION)
		fields = first;
	for (int i = 0; i < 4 && r >= 0; i++)
		r = take(&fields, &skipped);
	return r < 0 ? r : take_tag(&fields, TAG_SEQUENCE, ret);
}

/* The value of one attribute of a name, if it is the common name. */
static int read_common_name(struct der set, struct der *ret)
{
	static const uint8_t common_name[] = { 0x55, 0x04, 0x03 };
	struct der pair, type;
	int r;

	r = take_tag(&set, TAG_SEQUENCE, &pair);
	if (r >= 0)
		r = take_tag(&pair, TAG_OID, &type);
	if (r < 0)
		return r;
	if (type.size != sizeof(common_name) || memcmp(type.data, common_name, type.size) != 0)
		return -ENOENT;
	r = take(&pair, ret);
	return r < 0 ? r : 0;
}

static int find_node(struct der certificate, char ret[static DRA_CERTIFICATE_NODE_MAX + 1])
{
	static const char prefix[] = "system:node:";
	const size_t length = sizeof(prefix) - 1;
	struct der subject, set, name;
	int r;

	r = find_subject(certificate, &subject);
	while (r >= 0 && subject.size > 0) {
		r = take_tag(&subject, TAG_SET, &set);
		if (r < 0)
			return r;
		r = read_common_name(set, &name);
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		if (r < 0)
			return r;
		if (name.size <= length || memcmp(name.data, prefix, length) != 0 ||
			name.size - length > DRA_CERTIFICATE_NODE_MAX ||
			memchr(name.data, '\0', name.size))
			return -ENOENT;
		memcpy(ret, name.data + length, name.size - length);
		ret[name.size - length] = '\0';
		return 0;
	}
	return r < 0 ? r : -ENOENT;
}

int dra_certificate_node(
	const char *pem, size_t size, char ret[static DRA_CERTIFICATE_NODE_MAX + 1])
{
	const char *begin = memmem(pem, size, BEGIN, strlen(BEGIN)), *end;
	_cleanup_free_ uint8_t *bytes = NULL;
	_cleanup_free_ char *text = NULL;
	struct der certificate;
	int r;

	if (!begin)
		return -EBADMSG;
	begin += strlen(BEGIN);
	end = memmem(begin, size - (size_t)(begin - pem), END, strlen(END));
	if (!end)
		return -EBADMSG;
	text = strndup(begin, (size_t)(end - begin));
	if (!text)
		return -ENOMEM;
	r = base64_decode(text, &bytes, &certificate.size);
	if (r < 0)
		return r == -ENOMEM ? r : -EBADMSG;
	certificate.data = bytes;
	return find_node(certificate, ret);
}
