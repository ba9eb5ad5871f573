/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that no driver can do without when it prepares a claim: the claim from the API server,
 * and two files. The connection stays open, as a driver with a watch has one.
 */
#include "fetch.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/replace-file.h"
#include "common/text.h"
#include "common/util.h"
#include "samples.h"

/* About as much as a claim of one device, with its CDI document. */
#define FILE_SIZE 1500

static size_t ignore(char *data, size_t one, size_t size, void *userdata)
{
	return size;
}

static int get(CURL *easy, const char *server, const char *path)
{
	_cleanup_free_ char *url = NULL;
	long code = 0;

	if (format_text(&url, "%s%s", server, path) < 0)
		return -ENOMEM;
	if (curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK ||
		curl_easy_perform(easy) != CURLE_OK ||
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code) != CURLE_OK)
		return -EIO;
	return code == 200 ? 0 : -ENOENT;
}

static int write_files(int directory_fd)
{
	static char text[FILE_SIZE];
	int r = replace_file(directory_fd, "claim", 0600, text, sizeof(text));

	return r < 0 ? r : replace_file(directory_fd, "cdi", 0600, text, sizeof(text));
}

static int run(CURL *easy, const char *server, int directory_fd)
{
	char path[512];
	int r = 0;

	while (r >= 0 && fgets(path, sizeof(path), stdin)) {
		uint64_t began = now_nsec(), got, written;

		path[strcspn(path, "\n")] = '\0';
		r = get(easy, server, path);
		got = now_nsec();
		if (r >= 0)
			r = write_files(directory_fd);
		written = now_nsec();
		(void)printf("%.1f %.1f\n", (double)(got - began) / 1000,
			(double)(written - got) / 1000);
		(void)fflush(stdout);
	}
	return r;
}

int run_fetch(int argc, char *argv[])
{
	_cleanup_close_ int directory_fd = open(argv[4], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CURL *easy = curl_easy_init();
	int r;

	if (directory_fd < 0 || !easy)
		return -EINVAL;
	if (curl_easy_setopt(easy, CURLOPT_CAINFO, argv[1]) != CURLE_OK ||
		curl_easy_setopt(easy, CURLOPT_SSLCERT, argv[2]) != CURLE_OK ||
		curl_easy_setopt(easy, CURLOPT_SSLKEY, argv[3]) != CURLE_OK ||
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore) != CURLE_OK)
		return -EINVAL;
	r = run(easy, argv[0], directory_fd);
	curl_easy_cleanup(easy);
	return r;
}
