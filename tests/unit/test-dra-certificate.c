/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's name in client certificates, as openssl makes them, and in damaged ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base64.h"
#include "dra/dra-certificate.h"

#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END   "-----END CERTIFICATE-----\n"

/* O=system:nodes, CN=system:node:ip-10-0-0-1.ec2.internal */
static const char kubelet[] = "-----BEGIN CERTIFICATE-----\n"
			      "MIIB4zCCAYmgAwIBAgIUBbHfusXdaM/uVzSMMZF7iizzo6cwCgYIKoZIzj0EAwIw\n"
			      "RjEVMBMGA1UECgwMc3lzdGVtOm5vZGVzMS0wKwYDVQQDDCRzeXN0ZW06bm9kZTpp\n"
			      "cC0xMC0wLTAtMS5lYzIuaW50ZXJuYWwwIBcNMjYxMTI3MjMwMTU0WhgPMjEyNjEx\n"
			      "MDMyMzAxNTRaMEYxFTATBgNVBAoMDHN5c3RlbTpub2RlczEtMCsGA1UEAwwkc3lz\n"
			      "dGVtOm5vZGU6aXAtMTAtMC0wLTEuZWMyLmludGVybmFsMFkwEwYHKoZIzj0CAQYI\n"
			      "KoZIzj0DAQcDQgAE9UWITW7A/UhC/atq8nmRNf2yyxFEAievNKmDeNu6ipHIr4h2\n"
			      "MbDMSO1++rwX3A3G5riP4PeG47g80YUF9ooKw6NTMFEwHQYDVR0OBBYEFGtt3O/+\n"
			      "KrUBFk+F+vkYXPa8JaERMB8GA1UdIwQYMBaAFGtt3O/+KrUBFk+F+vkYXPa8JaER\n"
			      "MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgCG/myINxlYzNmd1r\n"
			      "RB4bHLRwueBcVOtoJNscfGIX3rgCIQCUbVjF35mAC/4EjARxyHE/pgh+VlrAdVHU\n"
			      "VktnG6nkjA==\n"
			      "-----END CERTIFICATE-----\n";

/* CN=kubernetes-admin, O=system:masters */
static const char admin[] = "-----BEGIN CERTIFICATE-----\n"
			    "MIIBvzCCAWWgAwIBAgIUdPBkNQCI+THBCLZkYHpMSQ97AeYwCgYIKoZIzj0EAwIw\n"
			    "NDEZMBcGA1UEAwwQa3ViZXJuZXRlcy1hZG1pbjEXMBUGA1UECgwOc3lzdGVtOm1h\n"
			    "c3RlcnMwIBcNMjYxMTI3MjMwMTU0WhgPMjEyNjExMDMyMzAxNTRaMDQxGTAXBgNV\n"
			    "BAMMEGt1YmVybmV0ZXMtYWRtaW4xFzAVBgNVBAoMDnN5c3RlbTptYXN0ZXJzMFkw\n"
			    "EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE6ab81ruZdSZKj3D8En39Uu+aGEsNpkm3\n"
			    "nLtIAu07ZLnh9zKfLHg1q1zC61DKePWc3msZolK9Ze79qyMg6S7l7aNTMFEwHQYD\n"
			    "VR0OBBYEFGhGeL8Mhwf3WfLDsUlhwPb369EZMB8GA1UdIwQYMBaAFGhGeL8Mhwf3\n"
			    "WfLDsUlhwPb369EZMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIh\n"
			    "ALpiFyzRRMA1QDb3exampWqYayBvwzK8RzHCSDqVHgf1AiBgVgpq+8Gmu+mpmqsj\n"
			    "C+dbMNquNV+E5mJ7+jCragdUxg==\n"
			    "-----END CERTIFICATE-----\n";

static int read_node(const char *pem, char ret[static DRA_CERTIFICATE_NODE_MAX + 1])
{
	return dra_certificate_node(pem, strlen(pem), ret);
}

static void test_kubelet(void **state)
{
	char node[DRA_CERTIFICATE_NODE_MAX + 1], file[4096];

	assert_int_equal(read_node(kubelet, node), 0);
	assert_string_equal(node, "ip-10-0-0-1.ec2.internal");
	/* The first one in a file counts. Others and keys may follow. */
	(void)snprintf(file, sizeof(file), "# comment\n%s%s-----BEGIN EC PRIVATE KEY-----\n",
		kubelet, admin);
	assert_int_equal(read_node(file, node), 0);
	assert_string_equal(node, "ip-10-0-0-1.ec2.internal");
}

static void test_others(void **state)
{
	char node[DRA_CERTIFICATE_NODE_MAX + 1] = "untouched";

	assert_int_equal(read_node(admin, node), -ENOENT);
	assert_int_equal(read_node("", node), -EBADMSG);
	assert_int_equal(read_node(BEGIN, node), -EBADMSG);
	assert_int_equal(read_node(BEGIN END, node), -EBADMSG);
	assert_int_equal(read_node(BEGIN "MA==\n" END, node), -EBADMSG);
	assert_int_equal(read_node(BEGIN "!\n" END, node), -EBADMSG);
	assert_string_equal(node, "untouched");
}

static int read_bytes(
	const uint8_t *bytes, size_t size, char ret[static DRA_CERTIFICATE_NODE_MAX + 1])
{
	_cleanup_free_ char *text = base64_encode(bytes, size), *pem = NULL;

	assert_non_null(text);
	assert_true(asprintf(&pem, BEGIN "%s\n" END, text) > 0);
	return read_node(pem, ret);
}

/* Each part of it, and each byte with other values: none reads beyond the end. */
static void test_damaged(void **state)
{
	const char *text = kubelet + strlen(BEGIN);
	_cleanup_free_ char *body = strndup(text, strlen(text) - strlen(END));
	_cleanup_free_ uint8_t *bytes = NULL;
	char node[DRA_CERTIFICATE_NODE_MAX + 1];
	size_t size, refused = 0;

	assert_int_equal(base64_decode(body, &bytes, &size), 0);
	assert_int_equal(read_bytes(bytes, size, node), 0);
	for (size_t length = 1; length < size; length++)
		assert_int_equal(read_bytes(bytes, length, node), -EBADMSG);
	for (size_t i = 0; i < size; i++) {
		static const uint8_t values[] = { 0x00, 0x01, 0x30, 0x7f, 0x80, 0x83, 0x84, 0xff };
		uint8_t before = bytes[i];

		for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
			bytes[i] = values[k];
			refused += read_bytes(bytes, size, node) < 0;
		}
		bytes[i] = before;
	}
	assert_true(refused > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kubelet),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
