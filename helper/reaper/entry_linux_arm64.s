#include "go_asm.h"
#include "textflag.h"

// The diagram of package reaper, from top to bottom; entry_linux_amd64.s does the same.

// A system call of linux/arm64 has its number in R8 and its arguments in R0 to R5. It leaves its result in R0, or an
// error as a number below 0, and changes nothing else.
#define SYS_fcntl 25
#define SYS_close 57
#define SYS_write 64
#define SYS_ppoll 73
#define SYS_exit_group 94
#define SYS_rt_sigaction 134
#define SYS_rt_sigprocmask 135
#define SYS_prctl 167
#define SYS_getpid 172
#define SYS_getppid 173
#define SYS_clone 220
#define SYS_mmap 222
#define SYS_wait4 260
#define SYS_prlimit64 261
#define CALL(number) MOVD $number, R8; SVC

#define SIGACTION(signal, action) \
	MOVD $signal, R0; MOVD $action(SB), R1; MOVD ZR, R2; MOVD $8, R3; CALL(SYS_rt_sigaction)
#define CLOSE(fd) \
	MOVD $fd, R0; CALL(SYS_close)

// func entry()
TEXT ·entry(SB), NOSPLIT|NOFRAME, $0
	MOVD ZR, R0 // of this process
	MOVD $9, R1 // RLIMIT_AS
	MOVD ZR, R2
	MOVD $·space(SB), R3
	CALL(SYS_prlimit64)
	CBNZ R0, arguments
	MOVD ·space(SB), R9
	MOVD $const_plenty, R10
	CMP  R10, R9
	BHS  arguments
	MOVD $const_leastSpace, R10
	CMP  R10, R9
	BLO  refuse
	MOVD $const_modest, R10
	CMP  R10, R9
	BLS  arguments
	MOVD ·space+8(SB), R9
	MOVD R9, ·lowered+8(SB)
	MOVD ZR, R0
	MOVD $·lowered(SB), R2
	MOVD ZR, R3
	CALL(SYS_prlimit64)
	B    arguments

refuse:
	MOVD $2, R0
	MOVD ·tooLittle(SB), R1
	MOVD ·tooLittle+8(SB), R2
	CALL(SYS_write)
	MOVD $const_exitCode, R0
	CALL(SYS_exit_group)

arguments:
	// At RSP: argc, argv[0], argv[1] ... Is the second "--helper" or "--helper-guard"?
	MOVD 0(RSP), R9
	CMP  $2, R9
	BLT  runtime
	MOVD 16(RSP), R19
	MOVD 0(R19), R9
	MOVD $0x7265706c65682d2d, R10
	CMP  R10, R9
	BNE  runtime
	MOVBU 8(R19), R9
	CBZ  R9, reaper
	MOVWU 8(R19), R9
	MOVD $0x6175672d, R10 // "-gua"
	CMP  R10, R9
	BNE  runtime
	MOVWU 11(R19), R9
	MOVD $0x00647261, R10 // "ard", and its end
	CMP  R10, R9
	BNE  runtime
	MOVD ZR, R21 // a guard has no helper
	B    ignore

reaper:
	MOVD $36, R0 // PR_SET_CHILD_SUBREAPER
	MOVD $1, R1
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	CALL(SYS_prctl)
	CBNZ R0, runtime
	SIGACTION(1, ·ignored)   // SIGHUP
	SIGACTION(2, ·ignored)   // SIGINT
	SIGACTION(15, ·ignored)  // SIGTERM
	SIGACTION(17, ·standard) // SIGCHLD: wait4 fails if it is ignored

	MOVD ZR, R0 // SIG_BLOCK
	MOVD $·all(SB), R1
	MOVD $·mask(SB), R2
	MOVD $8, R3
	CALL(SYS_rt_sigprocmask)

	MOVD ZR, R0 // a page that both share; without it the reaper does not know the counts
	MOVD $4096, R1
	MOVD $3, R2    // PROT_READ|PROT_WRITE
	MOVD $0x21, R3 // MAP_SHARED|MAP_ANONYMOUS
	MOVD $-1, R4
	MOVD ZR, R5
	CALL(SYS_mmap)
	CMP  $0, R0
	BLT  fork
	MOVD R0, ·shared(SB)

fork:
	CALL(SYS_getpid)
	MOVD R0, R20
	MOVD $17, R0 // SIGCHLD: a fork
	MOVD ZR, R1
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	CALL(SYS_clone)
	MOVD R0, R21
	CMP  $0, R0
	BLE  helper

	MOVW $2, R9
	MOVW R9, ·part(SB)
	MOVW $0x70616572, R9 // "reap"
	MOVW R9, 2(R19)
	MOVD $15, R0 // PR_SET_NAME
	MOVD $·name(SB), R1
	CALL(SYS_prctl)
	CLOSE(0)
	CLOSE(1) // 2 stays open, to print why the helper was killed

ignore:
	MOVD $64, R22
each: // drops pending signals, too: Go lets signals in before it handles them
	CMP  $17, R22
	BEQ  next
	MOVD R22, R0
	MOVD $·ignored(SB), R1
	MOVD ZR, R2
	MOVD $8, R3
	CALL(SYS_rt_sigaction) // fails for SIGKILL and SIGSTOP
next:
	SUB  $1, R22
	CBNZ R22, each
	CBZ  R21, guard

wait:
	MOVD R21, R0
	MOVD $·status(SB), R1
	MOVD ZR, R2
	MOVD ZR, R3
	CALL(SYS_wait4)
	CMN  $4, R0 // EINTR
	BEQ  wait
	CMP  $0, R0
	BLT  failed
	MOVWU ·status(SB), R9
	CBNZ R9, runtime

	MOVD $-1, R0
	MOVD ZR, R1
	MOVD $1, R2 // WNOHANG
	MOVD ZR, R3
	CALL(SYS_wait4)
	CMN  $10, R0 // ECHILD
	BNE  runtime
	MOVD ZR, R0
	CALL(SYS_exit_group)

guard:
	MOVD $·pipe(SB), R0
	MOVD $1, R1
	MOVD ZR, R2 // for ever
	MOVD ZR, R3
	MOVD $8, R4
	CALL(SYS_ppoll)
	CMN  $4, R0 // EINTR
	BEQ  guard
	B    runtime

failed:
	NEG  R0, R0
	MOVW R0, ·errno(SB)
	B    runtime

helper: // or the fork failed
	MOVD $2, R0 // SIG_SETMASK
	MOVD $·mask(SB), R1
	MOVD ZR, R2
	MOVD $8, R3
	CALL(SYS_rt_sigprocmask)
	CBNZ R21, runtime

	MOVW $1, R9
	MOVW R9, ·part(SB)
	MOVD $1, R0  // PR_SET_PDEATHSIG
	MOVD $15, R1 // SIGTERM
	CALL(SYS_prctl)
	CALL(SYS_getppid)
	CMP  R20, R0
	BEQ  runtime
	MOVD $143, R0 // the reaper was killed before PR_SET_PDEATHSIG
	CALL(SYS_exit_group)

runtime: // it opens /dev/null for closed descriptors 0 to 2
	MOVD $1, R0
	MOVD $1, R1 // F_GETFD
	CALL(SYS_fcntl)
	MOVW R0, ·stdout(SB)
	B    _rt0_arm64_linux(SB)

// A struct kernel_sigaction starts with the handler: SIG_IGN, SIG_DFL.
DATA ·ignored+0(SB)/8, $1
GLOBL ·ignored(SB), RODATA|NOPTR, $32
DATA ·standard+0(SB)/8, $0
GLOBL ·standard(SB), RODATA|NOPTR, $32
DATA ·all+0(SB)/8, $-1
GLOBL ·all(SB), RODATA|NOPTR, $8
DATA ·name+0(SB)/8, $"remshell"
DATA ·name+8(SB)/7, $"-reaper" // the last byte is 0
GLOBL ·name(SB), RODATA|NOPTR, $16
