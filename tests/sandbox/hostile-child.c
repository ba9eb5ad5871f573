/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the place of devplugd-plugin, devplugd-cluster or devplugd-exporter, as a child that has
 * been taken over. The file "hostile" beside it has four lines: the path of the real program, the
 * kind of attack, runtime_dir, and cdi_dir. The real program serves every resource but
 * vendor.example/evil; for kinds that begin with "client-" it serves that one, too, and does not
 * register; for "honest" it does everything. The file "claim" has the claim that the attack
 * "dra-claim" sends. On its standard error it prints "attempt:" and the kind before each attack,
 * and "possible:" and what was, or "-" for nothing.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/child-sandbox.h"
#include "common/control-child.h"
#include "common/control-cluster.h"
#include "common/control-kubelet-client.h"
#include "common/counters.h"
#include "common/sealed.h"

#define LINE_LENGTH 4096

/* Changes of a CDI file, and the least time between two of one resource. */
#define STORM          10
#define WRITE_INTERVAL (100 * USEC_PER_MSEC)

static char lines[4][LINE_LENGTH];

static FILE *open_beside(const char *name)
{
	char path[LINE_LENGTH];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);

	if (n < 0)
		return NULL;
	path[n] = '\0';
	(void)strcpy(strrchr(path, '/') + 1, name);
	return fopen(path, "re");
}

static bool read_lines(void)
{
	FILE *file = open_beside("hostile");
	bool complete = file != NULL;

	for (size_t i = 0; file && i < ARRAY_SIZE(lines); i++) {
		complete = complete && fgets(lines[i], LINE_LENGTH, file);
		lines[i][strcspn(lines[i], "\n")] = '\0';
	}
	if (file)
		(void)fclose(file);
	return file && complete;
}

/* --- what must not be within reach --- */

static const char *path_in(const char *directory, const char *name)
{
	static char path[2 * LINE_LENGTH];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static const char *in_run(const char *name)
{
	return path_in(lines[2], name);
}

static const char *in_cdi(const char *name)
{
	return path_in(lines[3], name);
}

static bool can_open(const char *path, int flags)
{
	return open(path, flags | O_CLOEXEC, 0600) >= 0;
}

static bool can_change_cdi(void)
{
	return can_open(in_cdi("devplugd-vendor.example=card.json"), O_WRONLY);
}

static bool can_add_cdi(void)
{
	return can_open(in_cdi("x.json"), O_WRONLY | O_CREAT);
}

static bool can_replace_directory(void)
{
	char from[LINE_LENGTH + 16];

	(void)strcpy(from, in_run("health"));
	return rename(from, in_run("x")) == 0 || symlink("/etc", in_run("y")) == 0;
}

static bool can_change_list(void)
{
	return can_open(in_cdi(".devplugd-files-0"), O_WRONLY | O_APPEND | O_CREAT);
}

static bool can_change_configuration(void)
{
	return can_open(in_run("last-good.conf"), O_WRONLY);
}

static bool can_lock(void)
{
	return can_open(in_run("lock"), O_RDONLY);
}

static bool can_limit(void)
{
	const struct rlimit limit = { 0, 0 };

	return syscall(SYS_prlimit64, getppid(), RLIMIT_FSIZE, &limit, NULL) == 0;
}

static bool can_move(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	return sched_setaffinity(getppid(), sizeof(set), &set) == 0;
}

static bool can_slow_down(void)
{
	return setpriority(PRIO_PROCESS, (id_t)getppid(), 19) == 0;
}

static bool can_signal(void)
{
	return kill(getppid(), 0) == 0;
}

static bool can_trace(void)
{
	return ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) == 0;
}

static bool can_write_proc(const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)getppid(), name);
	return can_open(path, O_RDWR);
}

static bool can_score(void)
{
	return can_write_proc("oom_score_adj");
}

static bool can_write_memory(void)
{
	return can_write_proc("mem");
}

/* By what was inherited or can be found. */
static bool can_become_root(void)
{
	return setresuid(0, 0, 0) == 0 || setgid(0) == 0;
}

static bool can_reopen(void)
{
	return can_open("/proc/self/exe", O_WRONLY) || can_open("/proc/self/fd/3", O_RDWR);
}

/* Files of root and of siblings: what a child reads is what every user of the host may read. */
static bool can_read_secret(void)
{
	return can_open("/etc/shadow", O_RDONLY);
}

static bool can_read_configuration(void)
{
	return can_open(in_run("last-good.conf"), O_RDONLY);
}

static bool can_read_health(void)
{
	return can_open(in_run("health"), O_RDONLY | O_DIRECTORY);
}

/* A process that has ended can be opened, but has nothing to read. */
static bool can_read_process(const char *pid)
{
	static const char *const names[] = { "environ", "maps", "mem", "auxv" };
	char path[PATH_MAX], byte;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int fd;

		(void)snprintf(path, sizeof(path), "/proc/%s/%s", pid, names[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, &byte, 1) > 0)
			return true;
		if (fd >= 0)
			(void)close(fd);
	}
	(void)snprintf(path, sizeof(path), "/proc/%s/fd/0", pid);
	return readlink(path, &byte, 1) > 0;
}

static bool is_supervisor_or_sibling(const char *pid)
{
	char path[PATH_MAX];
	int parent = 0;
	FILE *stream;

	(void)snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	stream = fopen(path, "re");
	if (!stream || fscanf(stream, "%*d (%*[^)]) %*c %d", &parent) != 1)
		parent = 0;
	if (stream)
		(void)fclose(stream);
	return atoi(pid) > 0 &&
		(atoi(pid) == getppid() || (parent == getppid() && atoi(pid) != getpid()));
}

/* What the supervisor and the other children have in memory and open. */
static bool can_read_others(void)
{
	struct dirent *entry;
	DIR *stream = opendir("/proc");
	bool some = false;

	while (stream && (entry = readdir(stream)))
		some = some ||
			(is_supervisor_or_sibling(entry->d_name) &&
				can_read_process(entry->d_name));
	if (stream)
		(void)closedir(stream);
	return some;
}

/* For the shell of the terminal that devplugd was started from. */
static bool can_type(void)
{
	char command[3 * LINE_LENGTH];
	int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC);

	(void)snprintf(command, sizeof(command), " id >%s\n", in_run("../typed"));
	for (const char *key = command; *key; key++)
		if (fd < 0 || ioctl(fd, TIOCSTI, key) < 0)
			return false;
	return true;
}

/* --- the kubelet --- */

/* In directories beside runtime_dir, which may not be entered. */
static const char *beside_run(const char *name)
{
	static char path[2 * LINE_LENGTH];
	const char *end = strrchr(lines[2], '/');

	(void)snprintf(path, sizeof(path), "%.*s/%s", (int)(end - lines[2]), lines[2], name);
	return path;
}

static struct sockaddr_un address_of(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) < sizeof(address.sun_path))
		(void)strcpy(address.sun_path, path);
	return address;
}

static bool can_connect_to_kubelet(void)
{
	struct sockaddr_un address = address_of(beside_run("plugins/kubelet.sock"));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool can_bind(const char *path)
{
	struct sockaddr_un address = address_of(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

/* Where a kubelet finds plugins, or where Register may lead it. */
static bool can_add_plugin(void)
{
	return can_bind(beside_run("plugins/x.sock")) || can_bind(beside_run("registry/x.sock"));
}

/* The socket of a session, which the kubelet must not find. */
static bool can_show_socket(void)
{
	struct sockaddr_un address;
	char shown[sizeof(address.sun_path)], *name;

	for (int fd = 0; fd < FD_SETSIZE; fd++) {
		socklen_t size = sizeof(address);

		(void)memset(&address, 0, sizeof(address));
		if (getsockname(fd, (struct sockaddr *)&address, &size) < 0 ||
			address.sun_family != AF_UNIX)
			continue;
		(void)memcpy(shown, address.sun_path, sizeof(shown));
		name = strrchr(shown, '/');
		if (!name)
			continue;
		name[1] = 'x';
		if (rename(address.sun_path, shown) == 0 || link(address.sun_path, shown) == 0)
			return true;
	}
	return false;
}

/* One is enough to register any name. */
static bool has_connection_to_kubelet(void)
{
	for (int fd = 0; fd < FD_SETSIZE; fd++) {
		struct sockaddr_un address = { 0 };
		socklen_t size = sizeof(address);

		if (getpeername(fd, (struct sockaddr *)&address, &size) == 0 &&
			address.sun_family == AF_UNIX && strstr(address.sun_path, "kubelet.sock"))
			return true;
	}
	return false;
}

struct attempt {
	const char *name;
	bool (*possible)(void);
};

static const struct attempt attempts[] = {
	{ "change-cdi", can_change_cdi },
	{ "add-cdi", can_add_cdi },
	{ "replace-directory", can_replace_directory },
	{ "change-list", can_change_list },
	{ "change-configuration", can_change_configuration },
	{ "lock", can_lock },
	{ "limit", can_limit },
	{ "affinity", can_move },
	{ "priority", can_slow_down },
	{ "signal", can_signal },
	{ "trace", can_trace },
	{ "oom-score", can_score },
	{ "memory", can_write_memory },
	{ "root", can_become_root },
	{ "reopen", can_reopen },
	{ "read-secret", can_read_secret },
	{ "read-configuration", can_read_configuration },
	{ "read-health", can_read_health },
	{ "read-others", can_read_others },
	{ "type", can_type },
	{ "connect-to-kubelet", can_connect_to_kubelet },
	{ "add-plugin", can_add_plugin },
	{ "show-socket", can_show_socket },
	{ "connection-to-kubelet", has_connection_to_kubelet },
};

static void try_each(const struct attempt *list, size_t n, const char *first)
{
	char line[1024] = "possible:";

	(void)strcat(line, first);
	for (size_t i = 0; i < n; i++)
		if (list[i].possible())
			(void)strcat(strcat(line, " "), list[i].name);
	(void)fprintf(stderr, "%s%s\n", line, line[9] ? "" : " -");
}

/* --- what a child that runs no programs has left --- */

static bool can_open_more_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return true;
	limit.rlim_cur++;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static bool can_outlive_devplugd(void)
{
	return prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) == 0;
}

static void try_without_programs(void)
{
	static const struct attempt list[] = {
		{ "more-files", can_open_more_files },
		{ "outlive", can_outlive_devplugd },
		{ "type", can_type },
	};

	if (sandbox_give_up_programs(false) < 0)
		perror("sandbox_give_up_programs");
	else
		try_each(list, ARRAY_SIZE(list), "");
}

/* --- what is sent to the supervisor --- */

static void say(uint32_t type, uint64_t number, int fd)
{
	struct control_message message = CHILD_MESSAGE_INIT(type);

	message.number = number;
	message.fds[0] = fd;
	if (control_send(CONTROL_FD, &message) < 0)
		perror("control_send");
}

/* Closing the last descriptor of it takes an hour. The peer stays with us until we are killed. */
static int lingering_socket(void)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 3600 };
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	static const char data[1 << 20];
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

	/* The unit allows no TCP: some other descriptor that is not memory. */
	if (listener < 0 || fd < 0)
		return socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0 ||
		getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
		connect(fd, (struct sockaddr *)&address, size) < 0)
		perror("a connection");
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	while (send(fd, data, sizeof(data), MSG_NOSIGNAL) > 0)
		;
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return fd;
}

static void linger(void)
{
	int fd = lingering_socket();

	say(CHILD_CLAIMS, 1, fd);
	(void)close(fd);
}

static void claim(unsigned n)
{
	static char line[64];
	int fd = sealed_begin("claims");
	FILE *stream = fdopen(dup(fd), "w");

	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(line, sizeof(line), "i%u\tc%u\n", i, i);
		(void)fputs(line, stream);
	}
	(void)fclose(stream);
	(void)sealed_end(fd);
	say(CHILD_CLAIMS, 1, fd);
}

static void store_much(void)
{
	int fd = sealed_begin("devices");

	if (ftruncate(fd, 1LL << 40) < 0 || sealed_end(fd) < 0)
		perror("a large memfd");
	say(CHILD_DEVICES, 1, fd);
}

/* A seal that can still be added, such as F_SEAL_FUTURE_WRITE, is as much a change as any. */
static void keep_writable(void)
{
	int fd = sealed_begin("devices");

	if (write(fd, "{}", 2) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		perror("a memfd");
	say(CHILD_DEVICES, 1, fd);
}

static void claim_too_much(void)
{
	claim(500000);
}

/* As much as is allowed, with ids of our own. */
static void claim_most(void)
{
	claim(CLAIMS_ALLOWED);
}

/* Each is another one, and would be logged. */
static void complain(void)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CALL_FAILED);

	message.call = CHILD_CALL_ALLOCATE;
	message.count = 1;
	for (unsigned i = 0; i < 3000; i++) {
		(void)snprintf(message.text, sizeof(message.text), "id complaint %u", i);
		while (control_send(CONTROL_FD, &message) == -EAGAIN)
			(void)usleep(1000);
	}
}

/* Texts in disguise: reordered, broken into lines, and with parts that have no
 * width. */
static void disguise(void)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CALL_FAILED);

	message.call = CHILD_CALL_ALLOCATE;
	message.count = 1;
	(void)strcpy(message.text,
		"id disguise \u202ereordered\u2066 in\u2028lines with\u200bno\u2060width\ufeff");
	if (control_send(CONTROL_FD, &message) < 0)
		perror("control_send");
	(void)fprintf(stderr, "<3;id\u202e>%s\n", message.text);
}

/* Sends and waits for the answer of that type. False: there is none within 10 s. */
static bool ask(struct control_message *question, uint32_t type, struct control_message *answer)
{
	struct pollfd control = { .fd = CONTROL_FD, .events = POLLIN };

	if (control_send(CONTROL_FD, question) < 0)
		return false;
	while (poll(&control, 1, 10000) > 0) {
		if (control_receive(CONTROL_FD, question->protocol, answer) < 0)
			return false;
		if (answer->type == type)
			return true;
		control_message_done(answer);
	}
	return false;
}

/* --- with a session --- */

static enum role { ROLE_RESOURCE, ROLE_CLIENT, ROLE_CLUSTER, ROLE_EXPORTER } role;

/* Waits for a message, whose descriptors it keeps open. */
static bool await(
	const struct control_protocol *protocol, uint32_t type, struct control_message *message)
{
	struct pollfd control = { .fd = CONTROL_FD, .events = POLLIN };

	while (poll(&control, 1, 10000) > 0) {
		*message = CONTROL_MESSAGE_INIT(protocol, 0);
		if (control_receive(CONTROL_FD, protocol, message) < 0)
			return false;
		if (message->type == type)
			return true;
		control_message_done(message);
	}
	return false;
}

/* Reports that many devices are about to be allocated, in messages that have as many as they may.
 */
static void take_many(void)
{
	_cleanup_control_ struct control_message answer = CHILD_MESSAGE_INIT(0);

	claim(CLAIMS_ALLOWED);
	if (!await(&control_child, CHILD_OWNERS, &answer))
		return;
	for (unsigned i = 0, number = 0; i + CHILD_USE_IDS_MAX <= CLAIMS_ALLOWED;) {
		struct control_message question = CHILD_MESSAGE_INIT(CHILD_USE);
		int fd = sealed_begin("ids");
		FILE *stream = fdopen(dup(fd), "w");

		for (unsigned k = 0; k < CHILD_USE_IDS_MAX; k++)
			(void)fprintf(stream, "i%u\n", i++);
		(void)fclose(stream);
		(void)sealed_end(fd);
		question.number = ++number;
		question.phase = CHILD_USE_ALLOCATED;
		question.fds[0] = fd;
		control_message_done(&answer);
		if (!ask(&question, CHILD_USED, &answer))
			return;
		(void)close(fd);
	}
	(void)fprintf(stderr, "possible: -\n");
}

/* With all that a process of its role ever gets. */
static void try_all(void)
{
	static const struct {
		const struct control_protocol *protocol;
		uint32_t type;
	} sessions[] = {
		[ROLE_RESOURCE] = { &control_child, CHILD_SESSION },
		[ROLE_CLIENT] = { &control_client, CLIENT_REGISTER },
		[ROLE_CLUSTER] = { &control_cluster, CLUSTER_SESSION },
		[ROLE_EXPORTER] = { 0 },
	};
	struct control_message message;
	bool complete = true;

	if (role == ROLE_RESOURCE)
		say(CHILD_READY, 0, -EBADF);
	if (sessions[role].protocol)
		complete = await(sessions[role].protocol, sessions[role].type, &message);
	/* The last attempt is what the kubelet client is for. */
	try_each(attempts, ARRAY_SIZE(attempts) - (role == ROLE_CLIENT),
		complete ? "" : " no-session");
}

/* --- of the kubelet client --- */

static void report(uint32_t type, uint64_t session, const char *text)
{
	struct control_message message = CLIENT_MESSAGE_INIT(type);

	message.session = session;
	(void)snprintf(message.text, sizeof(message.text), "%s", text);
	while (control_send(CONTROL_FD, &message) == -EAGAIN)
		(void)usleep(1000);
}

/* The first registration, of either kind. */
static struct control_message await_registration(void)
{
	struct pollfd control = { .fd = CONTROL_FD, .events = POLLIN };
	const struct control_message alive = CLIENT_MESSAGE_INIT(CONTROL_ALIVE);
	struct control_message message = CLIENT_MESSAGE_INIT(0);

	while (poll(&control, 1, 1000) == 0)
		(void)control_send(CONTROL_FD, &alive);
	if (control_receive(CONTROL_FD, &control_client, &message) < 0)
		perror("control_receive");
	return message;
}

/* About sessions of others, which are none of its business, and then the same for what it got. */
static void lie(void)
{
	struct control_message message = await_registration();

	for (uint64_t session = 1; session < 1000; session++)
		if (session != message.session) {
			report(CLIENT_REFUSED, session, "lie");
			report(CLIENT_REGISTERED, session, "");
			report(CLIENT_UNUSED, session, "");
		}
	report(CLIENT_REGISTERED, message.session, "");
	(void)fprintf(stderr, "lied\n");
}

/* Only what waits on a listening socket can be unused. */
static void report_unused(void)
{
	report(CLIENT_UNUSED, await_registration().session, "");
}

/* The supervisor has the same socket. */
static void shut_down(void)
{
	struct control_message message = await_registration();

	(void)shutdown(message.fds[0], SHUT_RDWR);
	if (message.type == CLIENT_ANSWER)
		report(CLIENT_UNUSED, message.session, "");
	else
		report(CLIENT_REFUSED, message.session, "shut down");
}

static void flood(void)
{
	uint64_t session = await_registration().session;

	for (unsigned i = 0; i < 100000; i++)
		report(CLIENT_REFUSED, session, "flood");
}

/* --- files for others --- */

/* Whether devplugd writes the files of the document. */
static bool is_published(const char *document)
{
	static uint64_t number;
	_cleanup_control_ struct control_message question = CHILD_MESSAGE_INIT(CHILD_PUBLISH);
	_cleanup_control_ struct control_message answer = CHILD_MESSAGE_INIT(0);

	question.number = ++number;
	question.fds[0] = sealed_new("files", document, strlen(document));
	return ask(&question, CHILD_PUBLISHED, &answer) && answer.text[0] == '\0';
}

#define INFORMATION(id, type, members)                                                      \
	"{\"device_info\":{\"" id "\":{\"version\":\"1.1.0\",\"type\":\"" type "\",\"" type \
	"\":{" members "}}}}"

/* The file of another resource, whose name begins with ours, and values that lead elsewhere. */
static void publish_information(void)
{
	static const struct {
		const char *name, *document;
	} tries[] = {
		{ "file-of-another",
			INFORMATION(
				"nic-0000:3b:02.0", "pci", "\"pci-address\":\"0000:3b:02.0\"") },
		{ "address", INFORMATION("0000:3b:02.0", "pci", "\"pci-address\":\"../../../x\"") },
		{ "another-address",
			INFORMATION("0000:3b:02.0", "pci", "\"pci-address\":\"0000:3b:02.1\"") },
		{ "address-of-pf",
			INFORMATION("0000:3b:02.0", "pci",
				"\"pci-address\":\"0000:3b:02.0\",\"pf-pci-address\":\"../x\"") },
		{ "rdma-device",
			INFORMATION("0000:3b:02.0", "pci",
				"\"pci-address\":\"0000:3b:02.0\",\"rdma-device\":\"../x\"") },
		{ "path",
			INFORMATION("0000:3b:02.0", "vdpa",
				"\"parent-device\":\"vdpa0\",\"driver\":\"vhost\",\"path\":\"/dev/"
				"../x\"") },
	};
	char line[1024] = "possible:";

	say(CHILD_READY, 0, -EBADF);
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++)
		if (is_published(tries[i].document))
			(void)strcat(strcat(line, " "), tries[i].name);
	(void)fprintf(stderr, "%s%s\n", line, line[9] ? "" : " -");
}

#define DOCUMENT(id)                                                                         \
	"{\"cdi\":{\"cdiVersion\":\"0.3.0\",\"kind\":\"vendor.example/evil\",\"devices\":[{" \
	"\"name\":\"" id "\",\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/null\","  \
	"\"permissions\":\"rw\"}]}}]}}"

/* Each has a runtime read all CDI files again. */
static void publish_in_a_storm(void)
{
	uint64_t begun = now_usec(CLOCK_MONOTONIC);
	unsigned n = 0;

	say(CHILD_READY, 0, -EBADF);
	while (n < STORM && is_published(n % 2 == 0 ? DOCUMENT("a") : DOCUMENT("b")))
		n++;
	if (n < STORM)
		(void)fprintf(stderr, "%u were published\n", n);
	else
		(void)fprintf(stderr, "possible: %s\n",
			now_usec(CLOCK_MONOTONIC) - begun < (STORM - 1) * WRITE_INTERVAL ? "storm"
											 : "-");
}

/* --- lists of devices --- */

static void complete(const char *document)
{
	int fd = sealed_new("complete", document, strlen(document));

	say(CHILD_COMPLETE, 0, fd);
	(void)close(fd);
}

#define LIST(devices) "{\"match\":\"0123456789abcdef\",\"devices\":[" devices "]}"

/* More devices than the resource should have, or none. */
static void complete_another_number(void)
{
	say(CHILD_READY, 0, -EBADF);
	complete(LIST("\"a\",\"b\",\"c\""));
	complete(LIST(""));
	complete(LIST("\"mine\",\"other\""));
	(void)fprintf(stderr, "possible: -\n");
}

/* A text that is not an id. */
static void complete_nonsense(void)
{
	say(CHILD_READY, 0, -EBADF);
	complete(LIST("\"a\",\"../../x/\\u202e\""));
}

/* --- labels of the node --- */

static void label(const char *text)
{
	int fd = sealed_new("labels", text, strlen(text));

	say(CHILD_LABELS, 0, fd);
	(void)close(fd);
}

/* A label that the configuration does not have, behind one that it has. */
static void label_as_another(void)
{
	say(CHILD_READY, 0, -EBADF);
	label("mine.a=x\nnode-role.kubernetes.io/control-plane=\n");
}

/* A directive of node-feature-discovery. */
static void label_with_directive(void)
{
	say(CHILD_READY, 0, -EBADF);
	label("mine.a=x\n# +expiry-time=2020-01-01T00:00:00Z\n");
}

/* --- counts --- */

static void fill_counters(void)
{
	struct pollfd control = { .fd = CONTROL_FD, .events = POLLIN };
	uint64_t *page = MAP_FAILED;

	while (page == MAP_FAILED && poll(&control, 1, 10000) > 0) {
		_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(0);

		if (control_receive(CONTROL_FD, &control_child, &message) >= 0 &&
			message.type == CHILD_COUNTERS)
			page = mmap(NULL, _COUNTER_MAX * sizeof(*page), PROT_READ | PROT_WRITE,
				MAP_SHARED, message.fds[0], 0);
	}
	for (size_t i = 0; page != MAP_FAILED && i < _COUNTER_MAX; i++)
		page[i] = UINT64_MAX;
}

/* In numbers that JSON has no room for, and sums that wrap. */
static void count_too_much(void)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CALL_FAILED);

	fill_counters();
	message.call = CHILD_CALL_ALLOCATE;
	message.count = UINT64_MAX;
	(void)strcpy(message.text, "id complaint");
	for (unsigned i = 0; i < 3; i++)
		(void)control_send(CONTROL_FD, &message);
}

/* --- of devplugd-cluster --- */

static bool is_given_file(const char *path)
{
	struct control_message question = CLUSTER_MESSAGE_INIT(CLUSTER_FILE_WANTED);
	_cleanup_control_ struct control_message answer = CLUSTER_MESSAGE_INIT(0);

	question.number = 1;
	(void)snprintf(question.text, sizeof(question.text), "%s", path);
	return !ask(&question, CLUSTER_FILE, &answer) || answer.fds[0] >= 0;
}

/* As a kubelet's call gives. */
#define CALL_TIME (40 * USEC_PER_SEC)

static char refusal[CONTROL_TEXT_MAX];

/* If not, `refusal` has the reason. */
static bool is_claim_prepared(const char *text)
{
	_cleanup_control_ struct control_message question = CLUSTER_MESSAGE_INIT(CLUSTER_PREPARE);
	_cleanup_control_ struct control_message answer = CLUSTER_MESSAGE_INIT(0);

	question.driver = question.number = 1;
	question.until = now_usec(CLOCK_MONOTONIC) + CALL_TIME;
	question.fds[0] = sealed_new("claim", text, strlen(text));
	if (!ask(&question, CLUSTER_PREPARED, &answer))
		return true;
	(void)strcpy(refusal, answer.text);
	return answer.fds[0] >= 0;
}

/* `devices`: JSON. */
static bool is_prepared(const char *uid, const char *devices)
{
	char text[1024];

	(void)snprintf(text, sizeof(text),
		"{\"uid\":\"%s\",\"namespace\":\"n\",\"name\":\"c\",\"devices\":[%s]}", uid,
		devices);
	return is_claim_prepared(text);
}

static void try_claim(void)
{
	FILE *file = open_beside("claim");
	char text[4 * LINE_LENGTH] = "";

	if (!file || fread(text, 1, sizeof(text) - 1, file) == 0)
		perror("the claim");
	else
		(void)fprintf(stderr, "possible: %s\n", is_claim_prepared(text) ? "claim" : "-");
	if (file)
		(void)fclose(file);
}

#define DEVICE(resource, id)                                                                       \
	"{\"request\":\"r\",\"pool\":\"p\",\"name\":\"d\",\"admin\":true,\"resource\":\"" resource \
	"\",\"id\":\"" id "\"}"

/* What is refused, and leaves the process as it is. */
static void try_questions(void)
{
	char line[1024] = "possible:";

	/* The identity is chosen with the kubeconfig file, which the process may have. */
	if (!is_given_file(""))
		(void)strcat(line, " no-kubeconfig");
	if (is_given_file("/etc/shadow"))
		(void)strcat(line, " shadow");
	if (is_given_file("../../../../../../etc/shadow"))
		(void)strcat(line, " relative-shadow");
	if (is_given_file("/proc/self/environ"))
		(void)strcat(line, " environ");
	if (is_given_file(in_run("last-good.conf")))
		(void)strcat(line, " configuration");
	if (is_prepared("u-1", DEVICE("vendor.example/card", "card-0")))
		(void)strcat(line, " plugin-device");
	else
		(void)fprintf(stderr, "refused: %s\n", refusal);
	if (is_prepared("u-2", DEVICE("vendor.example/nothing", "x")))
		(void)strcat(line, " no-resource");
	if (is_prepared("u-3", DEVICE("vendor.example/evil", "no-such-id")))
		(void)strcat(line, " no-device");
	(void)fprintf(stderr, "%s%s\n", line, line[9] ? "" : " -");
}

static void try_path(void)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_UNPREPARE);

	message.driver = message.number = 1;
	(void)snprintf(message.text, sizeof(message.text), "/../../vendor.example-card");
	(void)control_send(CONTROL_FD, &message);
}

static void prepare_without_end(void)
{
	char uid[32];

	for (unsigned i = 0; i < 1000; i++) {
		(void)snprintf(uid, sizeof(uid), "u-%u", i);
		if (is_prepared(uid, ""))
			continue;
		(void)fprintf(stderr, "prepared: %u: %s\n", i, refusal);
		return;
	}
}

/* Attributes of the device of a claim that change without end: as many messages as it may send. */
static void change_attributes(void)
{
	static const char claim[] =
		"{\"uid\":\"u-0\",\"namespace\":\"n\",\"name\":\"c\",\"devices\":["
		"{\"request\":\"r\",\"pool\":\"p\",\"name\":\"d\",\"admin\":true,\"resource\":"
		"\"vendor.example/evil\",\"id\":\"evil-0\"}],\"metadata\":{\"attributes\":"
		"{\"d\":{}},\"alternatives\":{}}}";
	char text[256];

	while (!is_claim_prepared(claim) && strstr(refusal, "not ready"))
		(void)usleep(100000);
	for (unsigned i = 1; i <= 9000; i++) {
		_cleanup_control_ struct control_message message =
			CLUSTER_MESSAGE_INIT(CLUSTER_ATTRIBUTES);

		(void)snprintf(text, sizeof(text),
			"{\"d\":{\"lanes\":{\"int\":%u}},\"other\":{\"lanes\":{\"int\":1}}}", i);
		message.driver = 1;
		message.fds[0] = sealed_new("attributes", text, strlen(text));
		while (control_send(CONTROL_FD, &message) == -EAGAIN)
			(void)usleep(1000);
		if (i % 1000 == 0)
			(void)usleep(200000);
	}
	(void)fprintf(stderr, "changed: %s\n", refusal[0] ? refusal : "-");
}

/* A message for files that are not its own. */
static void send_malformed_attributes(void)
{
	static const char text[] = "{\"../d\":{}}";
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_ATTRIBUTES);

	message.driver = 1;
	message.fds[0] = sealed_new("attributes", text, strlen(text));
	(void)control_send(CONTROL_FD, &message);
}

static void complain_of_api(void)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_POOL);

	message.driver = 1;
	for (unsigned i = 0; i < 900; i++) {
		(void)snprintf(message.text, sizeof(message.text), "complaint %u", i);
		while (control_send(CONTROL_FD, &message) == -EAGAIN)
			(void)usleep(1000);
	}
}

/* --- of a child and devplugd-cluster together --- */

/* Sends a claim, and does not wait for the answer. */
static void send_claim(const char *uid, const char *devices, uint64_t number)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_PREPARE);
	char text[1024];

	(void)snprintf(text, sizeof(text),
		"{\"uid\":\"%s\",\"namespace\":\"n\",\"name\":\"c\",\"devices\":[%s]}", uid,
		devices);
	message.driver = 1;
	message.number = number;
	message.until = now_usec(CLOCK_MONOTONIC) + CALL_TIME;
	message.fds[0] = sealed_new("claim", text, strlen(text));
	(void)control_send(CONTROL_FD, &message);
}

/* The child never answers about claims; those of another resource are prepared all the same. */
static void stay_mute(void)
{
	char uid[32];

	if (role != ROLE_CLUSTER) {
		say(CHILD_READY, 0, -EBADF);
		return;
	}
	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(uid, sizeof(uid), "mute-%u", i);
		send_claim(uid, DEVICE("vendor.example/evil", "evil-0"), 1000 + i);
	}
	refusal[0] = '\0';
	while (!is_prepared("fast", DEVICE("vendor.example/fast", "fast-0")) &&
		strstr(refusal, "not ready"))
		(void)usleep(100000);
	(void)fprintf(stderr, "fast: %s\n", refusal[0] ? refusal : "prepared");
}

#define EDIT_SIZE 900000

/* Answers each question about claims with as much as one answer may have. */
static void answer_with_much(void)
{
	struct pollfd control = { .fd = CONTROL_FD, .events = POLLIN };
	const struct control_message alive = CHILD_MESSAGE_INIT(CONTROL_ALIVE);
	static char text[EDIT_SIZE + 128];
	int n = sprintf(text, "{\"cdi\":[],\"hash\":\"\",\"containerEdits\":{\"env\":[\"EVIL=");

	(void)memset(text + n, 'x', EDIT_SIZE);
	(void)strcpy(text + n + EDIT_SIZE, "\"]}}");
	say(CHILD_READY, 0, -EBADF);
	for (;;) {
		_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(0);

		(void)control_send(CONTROL_FD, &alive);
		if (poll(&control, 1, 1000) > 0 &&
			control_receive(CONTROL_FD, &control_child, &message) >= 0 &&
			message.type == CHILD_EDIT)
			say(CHILD_EDITS, message.number, sealed_new("edits", text, strlen(text)));
	}
}

static void fill_claims(void)
{
	char uid[32];

	if (role != ROLE_CLUSTER)
		answer_with_much();
	for (unsigned i = 0; i < 100;) {
		(void)snprintf(uid, sizeof(uid), "fill-%u", i);
		if (is_prepared(uid, DEVICE("vendor.example/evil", "evil-0"))) {
			i++;
		} else if (strstr(refusal, "not ready")) {
			(void)usleep(100000);
		} else {
			(void)fprintf(stderr, "filled: %u: %s\n", i, refusal);
			return;
		}
	}
}

static const struct {
	const char *name;
	void (*attack)(void);
	bool repeat; /* because it is allowed */
} kinds[] = {
	{ "touch", try_all, false },
	{ "client-touch", try_all, false },
	{ "client-lie", lie, true },
	{ "client-unused", report_unused, false },
	{ "client-shut-down", shut_down, true },
	{ "client-flood", flood, false },
	{ "serve", try_without_programs, false },
	{ "linger", linger, false },
	{ "claims", claim_too_much, false },
	{ "most", claim_most, true },
	{ "take", take_many, false },
	{ "store", store_much, false },
	{ "unsealed", keep_writable, false },
	{ "complain", complain, false },
	{ "information", publish_information, false },
	{ "storm", publish_in_a_storm, false },
	{ "complete-number", complete_another_number, false },
	{ "complete-nonsense", complete_nonsense, false },
	{ "label-another", label_as_another, false },
	{ "label-directive", label_with_directive, false },
	{ "counts", count_too_much, false },
	{ "disguise", disguise, false },
	{ "dra-questions", try_questions, false },
	{ "dra-claim", try_claim, false },
	{ "dra-path", try_path, false },
	{ "dra-claims", prepare_without_end, false },
	{ "dra-complain", complain_of_api, false },
	{ "dra-mute", stay_mute, false },
	{ "dra-fill", fill_claims, false },
	{ "dra-attributes", change_attributes, false },
	{ "dra-malformed", send_malformed_attributes, false },
};

/* Whose place is taken. */
static enum role find_role(int argc, char *argv[])
{
	return streq(argv[0], "devplugd-cluster")               ? ROLE_CLUSTER
		: streq(argv[0], "devplugd-exporter")           ? ROLE_EXPORTER
		: argc >= 2 && streq(argv[1], "kubelet-client") ? ROLE_CLIENT
								: ROLE_RESOURCE;
}

static bool is_hostile(const char *kind, const char *resource)
{
	if (streq(kind, "honest"))
		return false;
	if (startswith(kind, "client-"))
		return role == ROLE_CLIENT;
	return role == ROLE_CLUSTER || role == ROLE_EXPORTER ||
		(role == ROLE_RESOURCE && streq(resource, "vendor.example/evil"));
}

int main(int argc, char *argv[])
{
	const char *program = lines[0], *kind = lines[1];
	size_t chosen = 0;
	bool again = true;

	/* No template, which would make the children of all resources. */
	if (!read_lines() || (argc >= 2 && streq(argv[1], "--template")))
		return EXIT_FAILURE;
	role = find_role(argc, argv);
	if (!is_hostile(kind, argc >= 2 ? argv[1] : "")) {
		(void)execv(program, argv);
		return EXIT_FAILURE;
	}
	while (chosen < ARRAY_SIZE(kinds) && !streq(kind, kinds[chosen].name))
		chosen++;
	if (chosen == ARRAY_SIZE(kinds))
		return EXIT_FAILURE;
	for (;;) {
		const struct control_message alive = CHILD_MESSAGE_INIT(CONTROL_ALIVE);

		if (again) {
			(void)fprintf(stderr, "attempt: %s\n", kind);
			kinds[chosen].attack();
		}
		again = kinds[chosen].repeat;
		(void)control_send(CONTROL_FD, &alive);
		(void)sleep(1);
	}
}
