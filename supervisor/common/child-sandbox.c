/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two filters, because neither can do all: seccomp sees the number of a system call but not whom it
 * is about, Landlock sees relations between processes. A list of what is denied, not of what is
 * allowed: probes are other people's programs, and a call that is new or rare must not break them.
 */
#include "common/child-sandbox.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "common/util.h"

#if defined(__x86_64__)
	#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__i386__)
	#define ARCHITECTURE AUDIT_ARCH_I386
#elif defined(__aarch64__)
	#define ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__arm__)
	#define ARCHITECTURE AUDIT_ARCH_ARM
#elif defined(__riscv) && __riscv_xlen == 64
	#define ARCHITECTURE AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	#define ARCHITECTURE AUDIT_ARCH_PPC64LE
#endif

#define NAMESPACES                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
		CLONE_NEWPID | CLONE_NEWNET)

#ifdef ARCHITECTURE
/* Those of clone() with new namespaces are denied, too. */
static const int denied[] = {
	SYS_acct,
	SYS_add_key,
	SYS_bpf,
	SYS_chroot,
	SYS_delete_module,
	SYS_fanotify_init,
	SYS_finit_module,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fsopen,
	SYS_fspick,
	SYS_init_module,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_io_uring_setup,
	SYS_kcmp,
	SYS_kexec_load,
	SYS_keyctl,
	SYS_mount,
	SYS_mount_setattr,
	SYS_move_mount,
	SYS_open_by_handle_at,
	SYS_open_tree,
	SYS_perf_event_open,
	SYS_pidfd_getfd,
	SYS_pivot_root,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_quotactl,
	SYS_reboot,
	SYS_request_key,
	SYS_setdomainname,
	SYS_sethostname,
	SYS_setns,
	SYS_swapoff,
	SYS_swapon,
	SYS_syslog,
	SYS_umount2,
	SYS_unshare,
	SYS_userfaultfd,
	SYS_vhangup,
	#ifndef __SANITIZE_ADDRESS__ /* which looks for leaks by it */
	SYS_ptrace,
	#endif
};

	#define LOAD(member) \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, member))
	#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
	/* Goes on with the next instruction if it is true, else leaves one out. */
	#define IF(comparison, value) \
		BPF_JUMP(BPF_JMP | (comparison) | BPF_K, (uint32_t)(value), 0, 1)
	#define DENY     RETURN(SECCOMP_RET_ERRNO | EPERM)
	#define HEAD_MAX 16

static int filter_system_calls(void)
{
	static const struct sock_filter head[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
		DENY,
		LOAD(nr),
	#ifdef __x86_64__
		IF(BPF_JGE, 0x40000000), /* x32 */
		DENY,
	#endif
		/* Its flags are in memory, where a filter cannot look. The C library falls back on
		 * clone(). */
		IF(BPF_JEQ, SYS_clone3),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
		LOAD(args[0]),
		IF(BPF_JSET, NAMESPACES),
		DENY,
		RETURN(SECCOMP_RET_ALLOW),
	};
	static const struct sock_filter deny[] = { DENY }, allow[] = { RETURN(SECCOMP_RET_ALLOW) };
	struct sock_filter filter[ARRAY_SIZE(head) + 2 * ARRAY_SIZE(denied) + 1];
	const struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };
	struct sock_filter *next = filter;

	memcpy(next, head, sizeof(head));
	next += ARRAY_SIZE(head);
	for (size_t i = 0; i < ARRAY_SIZE(denied); i++) {
		*next++ = (struct sock_filter)IF(BPF_JEQ, denied[i]);
		*next++ = deny[0];
	}
	*next = allow[0];
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		return errno == EINVAL ? 0 : -errno;
	return 0;
}
#else
static int filter_system_calls(void)
{
	return 0;
}
#endif

/* As in Linux 6.12; headers may be older. */
struct ruleset {
	uint64_t handled_access_fs, handled_access_net, scoped;
};

#define ABI_WITH_SCOPES            6
#define SCOPE_ABSTRACT_UNIX_SOCKET (1U << 0)
#define SCOPE_SIGNAL               (1U << 1)

/* Each child is a domain of its own, whose processes cannot trace those outside, or, since Linux
 * 6.12, send signals to them. Files are the business of their owners and modes. */
static int leave_others_alone(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	bool scopes = abi >= ABI_WITH_SCOPES;
	const struct ruleset ruleset = {
		/* Some right there must be; this one takes a capability, too. */
		.handled_access_fs = scopes ? 0 : LANDLOCK_ACCESS_FS_MAKE_BLOCK,
		.scoped = scopes ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
	};
	int fd, r;

	if (abi <= 0)
		return 0;
	fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset,
		scopes ? sizeof(ruleset) : sizeof(ruleset.handled_access_fs), 0);
	if (fd < 0)
		return -errno;
	r = syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

int sandbox_enter(void)
{
	int r = leave_others_alone();

	return r < 0 ? r : filter_system_calls();
}
