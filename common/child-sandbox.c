/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which system calls and resources a child may use, so that a compromised child cannot
 * reach other processes or the rest of the host. Two mechanisms are combined, because neither is
 * enough alone: seccomp sees the number of a system call but not the process it targets; Landlock
 * sees relations between processes and, in a child that runs no programs, keeps files from being
 * made, written or removed by path. Where probes and commands run, seccomp uses a list of denied
 * calls, because these are other people's programs, and a new or rare call must not break them.
 * Where none run, it uses a list of allowed calls.
 */
#include "common/child-sandbox.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
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

/* Headers may be older. These numbers are the same on all architectures. */
#ifndef SYS_statmount
	#define SYS_statmount 457
#endif
#ifndef SYS_listmount
	#define SYS_listmount 458
#endif
#ifndef SYS_open_tree_attr
	#define SYS_open_tree_attr 467
#endif

#ifdef ARCHITECTURE
/* clone() that makes namespaces is denied, too, and ioctl() that writes input for a terminal. */
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
	SYS_listmount,
	SYS_mount,
	SYS_mount_setattr,
	SYS_move_mount,
	SYS_open_by_handle_at,
	SYS_open_tree,
	SYS_open_tree_attr,
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
	SYS_statmount,
	SYS_swapoff,
	SYS_swapon,
	SYS_syslog,
	SYS_umount2,
	SYS_unshare,
	SYS_userfaultfd,
	SYS_vhangup,
	#ifndef __SANITIZE_ADDRESS__ /* which uses ptrace() to find leaks */
	SYS_ptrace,
	#endif
};

	#define LOAD(member) \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, member))
	#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
	/* Continues with the next instruction if the condition is true, otherwise skips one. */
	#define IF(comparison, value) \
		BPF_JUMP(BPF_JMP | (comparison) | BPF_K, (uint32_t)(value), 0, 1)
	#define DENY RETURN(SECCOMP_RET_ERRNO | EPERM)

/* The head, then one decision on the number of the system call, which it has loaded. */
static int install_filter(const struct sock_filter *head, size_t n_head, const int *listed,
	size_t n_listed, struct sock_filter if_listed, struct sock_filter otherwise)
{
	struct sock_filter filter[UINT8_MAX], *next = filter;
	const struct sock_fprog program = { .len = (unsigned short)(n_head + n_listed + 2),
		.filter = filter };

	if (program.len > ARRAY_SIZE(filter)) /* a jump cannot be longer */
		return -E2BIG;
	memcpy(next, head, n_head * sizeof(*head));
	next += n_head;
	for (size_t i = 0; i < n_listed; i++)
		*next++ = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)listed[i], (uint8_t)(n_listed - i), 0);
	*next++ = otherwise;
	*next = if_listed;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		return errno == EINVAL ? 0 : -errno;
	return 0;
}

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
		/* The flags of clone3() are in memory, which a filter cannot read. The C library
		 * falls back on clone(). */
		IF(BPF_JEQ, SYS_clone3),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
		LOAD(args[0]),
		IF(BPF_JSET, NAMESPACES),
		DENY,
		RETURN(SECCOMP_RET_ALLOW),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 6),
		LOAD(args[1]),
		IF(BPF_JEQ, TIOCSTI),
		DENY,
		IF(BPF_JEQ, TIOCLINUX),
		DENY,
		RETURN(SECCOMP_RET_ALLOW),
	};

	return install_filter(head, ARRAY_SIZE(head), denied, ARRAY_SIZE(denied),
		(struct sock_filter)DENY, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
}

	/* Other architectures use additional names for the same calls, and sanitizers need more
	 * calls. */
	#if __SIZEOF_LONG__ == 8 && !defined(__SANITIZE_ADDRESS__)
static const int allowed[] = {
	/* reading files and directories, and descriptors that are open */
	SYS_close,
	SYS_close_range,
	SYS_dup,
	SYS_dup3,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_fcntl,
	SYS_fstat,
	SYS_fstatfs,
	SYS_ftruncate,
	SYS_getcwd,
	SYS_getdents64,
	SYS_ioctl,
	SYS_lseek,
	SYS_memfd_create,
	SYS_newfstatat,
	SYS_openat,
	SYS_openat2,
	SYS_pread64,
	SYS_preadv,
	SYS_pwrite64,
	SYS_read,
	SYS_readlinkat,
	SYS_readv,
	SYS_statfs,
	SYS_statx,
	SYS_umask,
	SYS_write,
	SYS_writev,
	/* waiting */
	SYS_clock_nanosleep,
	SYS_epoll_create1,
	SYS_epoll_ctl,
	SYS_epoll_pwait,
	SYS_eventfd2,
	SYS_inotify_add_watch,
	SYS_inotify_init1,
	SYS_inotify_rm_watch,
	SYS_nanosleep,
	SYS_pipe2,
	SYS_ppoll,
	SYS_pselect6,
	SYS_signalfd4,
	SYS_timerfd_create,
	SYS_timerfd_gettime,
	SYS_timerfd_settime,
	SYS_waitid,
	SYS_wait4,
	/* sockets */
	SYS_accept,
	SYS_accept4,
	SYS_bind,
	SYS_connect,
	SYS_getpeername,
	SYS_getsockname,
	SYS_getsockopt,
	SYS_listen,
	SYS_recvfrom,
	SYS_recvmmsg,
	SYS_recvmsg,
	SYS_sendmmsg,
	SYS_sendmsg,
	SYS_sendto,
	SYS_setsockopt,
	SYS_shutdown,
	SYS_socketpair,
	/* memory and threads */
	SYS_brk,
	SYS_futex,
	SYS_get_robust_list,
	SYS_madvise,
	SYS_membarrier,
	SYS_mincore,
	SYS_mmap,
	SYS_mprotect,
	SYS_mremap,
	SYS_munmap,
	SYS_rseq,
	SYS_sched_getaffinity,
	SYS_sched_getparam,
	SYS_sched_getscheduler,
	SYS_sched_yield,
	SYS_set_robust_list,
	SYS_set_tid_address,
	/* the process itself */
	SYS_capget,
	SYS_clock_getres,
	SYS_clock_gettime,
	SYS_exit,
	SYS_exit_group,
	SYS_getcpu,
	SYS_getegid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getgroups,
	SYS_getpgid,
	SYS_getpid,
	SYS_getppid,
	SYS_getpriority,
	SYS_getrandom,
	SYS_getresgid,
	SYS_getresuid,
	SYS_getrusage,
	SYS_getsid,
	SYS_gettid,
	SYS_gettimeofday,
	SYS_getuid,
	SYS_restart_syscall,
	SYS_rt_sigaction,
	SYS_rt_sigpending,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_rt_sigsuspend,
	SYS_rt_sigtimedwait,
	SYS_setrlimit,
	SYS_sigaltstack,
	SYS_sysinfo,
	SYS_times,
	SYS_uname,
		/* what older architectures call some of the above */
		#ifdef __x86_64__
	SYS_access,
	SYS_arch_prctl,
	SYS_dup2,
	SYS_epoll_create,
	SYS_epoll_wait,
	SYS_eventfd,
	SYS_getdents,
	SYS_inotify_init,
	SYS_lstat,
	SYS_open,
	SYS_pipe,
	SYS_poll,
	SYS_readlink,
	SYS_select,
	SYS_signalfd,
	SYS_stat,
	SYS_time,
		#endif
		#ifdef SYS_getrlimit
	SYS_getrlimit,
		#endif
};

/* The process may create threads but no processes. It may send signals to itself only, change only
 * its own limits, and must end with its parent. Only processes that need it can use the network. */
static int allow_serving(bool network)
{
	const struct sock_filter head[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
		LOAD(args[0]),
		IF(BPF_JSET, CLONE_THREAD),
		RETURN(SECCOMP_RET_ALLOW),
		DENY,
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4),
		LOAD(args[0]),
		IF(BPF_JEQ, getpid()),
		RETURN(SECCOMP_RET_ALLOW),
		DENY,
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 4),
		LOAD(args[0]),
		IF(BPF_JEQ, 0),
		RETURN(SECCOMP_RET_ALLOW),
		DENY,
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 4),
		LOAD(args[0]),
		IF(BPF_JEQ, PR_SET_PDEATHSIG),
		DENY,
		RETURN(SECCOMP_RET_ALLOW),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 10),
		LOAD(args[0]),
		IF(BPF_JEQ, AF_UNIX),
		RETURN(SECCOMP_RET_ALLOW),
		IF(BPF_JEQ, AF_NETLINK),
		RETURN(SECCOMP_RET_ALLOW),
		IF(BPF_JEQ, network ? AF_INET : AF_UNIX),
		RETURN(SECCOMP_RET_ALLOW),
		IF(BPF_JEQ, network ? AF_INET6 : AF_UNIX),
		RETURN(SECCOMP_RET_ALLOW),
		DENY,
		IF(BPF_JEQ, SYS_clone3),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
	};

	return install_filter(head, ARRAY_SIZE(head), allowed, ARRAY_SIZE(allowed),
		(struct sock_filter)RETURN(SECCOMP_RET_ALLOW), (struct sock_filter)DENY);
}
	#else
static int allow_serving(bool network)
{
	return 0;
}
	#endif
#else
static int filter_system_calls(void)
{
	return 0;
}

static int allow_serving(bool network)
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

/* In the order of the versions that brought them. */
static const uint64_t changes_of_files[] = {
	LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
		LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
		LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
		LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM,
	1ULL << 13, /* LANDLOCK_ACCESS_FS_REFER, since 5.19 */
	1ULL << 14, /* LANDLOCK_ACCESS_FS_TRUNCATE, since 6.2 */
};

static long landlock_version(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* A ruleset without rules denies everything that it handles. */
static int restrict_self(const struct ruleset *ruleset)
{
	int fd, r;

	fd = (int)syscall(SYS_landlock_create_ruleset, ruleset,
		ruleset->scoped ? sizeof(*ruleset) : sizeof(ruleset->handled_access_fs), 0);
	if (fd < 0)
		return -errno;
	r = syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

/* Each child is a domain of its own, whose processes cannot trace those outside, or, since Linux
 * 6.12, send signals to them. File access is left to ownership and modes. */
static int leave_others_alone(void)
{
	long version = landlock_version();
	bool scopes = version >= ABI_WITH_SCOPES;
	const struct ruleset ruleset = {
		/* At least one right is required; this one also needs a capability. */
		.handled_access_fs = scopes ? 0 : LANDLOCK_ACCESS_FS_MAKE_BLOCK,
		.scoped = scopes ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
	};

	return version <= 0 ? 0 : restrict_self(&ruleset);
}

static int leave_files_alone(void)
{
	long version = landlock_version();
	struct ruleset ruleset = { 0 };

	for (long i = 0; i < version && (size_t)i < ARRAY_SIZE(changes_of_files); i++)
		ruleset.handled_access_fs |= changes_of_files[i];
	return version <= 0 ? 0 : restrict_self(&ruleset);
}

/* A program may need more open files than its child; without programs, the limit is enough. */
static int keep_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	limit.rlim_max = limit.rlim_cur;
	return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}

unsigned sandbox_isolation(void)
{
	long version = landlock_version();

	return version <= 0 ? 0 : version < ABI_WITH_SCOPES ? 1 : 2;
}

int sandbox_enter(bool filtered)
{
	int r = leave_others_alone();

	return r < 0 || filtered ? r : filter_system_calls();
}

int sandbox_give_up_programs(bool network)
{
	int r = keep_file_limit();

	if (r >= 0)
		r = leave_files_alone();
	return r < 0 ? r : allow_serving(network);
}
