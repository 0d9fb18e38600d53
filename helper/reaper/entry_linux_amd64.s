#include "go_asm.h"
#include "textflag.h"

// The diagram of package reaper, from top to bottom; entry_linux_arm64.s does the same.

// A system call of linux/amd64 has its number in AX and its arguments in DI, SI, DX, R10, R8 and R9. It leaves its result
// in AX, or an error as a number below 0, and changes nothing else but CX and R11.
#define SYS_write 1
#define SYS_close 3
#define SYS_mmap 9
#define SYS_rt_sigaction 13
#define SYS_rt_sigprocmask 14
#define SYS_getpid 39
#define SYS_clone 56
#define SYS_wait4 61
#define SYS_fcntl 72
#define SYS_getppid 110
#define SYS_prctl 157
#define SYS_exit_group 231
#define SYS_ppoll 271
#define SYS_prlimit64 302
#define CALL(number) MOVL $number, AX; SYSCALL

#define SIGACTION(signal, action) \
	MOVL $signal, DI; LEAQ action(SB), SI; XORL DX, DX; MOVL $8, R10; CALL(SYS_rt_sigaction)
#define CLOSE(fd) \
	MOVL $fd, DI; CALL(SYS_close)

// func entry()
TEXT ·entry(SB), NOSPLIT|NOFRAME, $0
	XORL  DI, DI // of this process
	MOVL  $9, SI // RLIMIT_AS
	XORL  DX, DX
	LEAQ  ·space(SB), R10
	CALL(SYS_prlimit64)
	TESTQ AX, AX
	JNE   arguments
	MOVQ  ·space(SB), AX
	MOVQ  $const_plenty, BX
	CMPQ  AX, BX
	JCC   arguments
	CMPQ  AX, $const_leastSpace
	JCS   refuse
	CMPQ  AX, $const_modest
	JLS   arguments
	MOVQ  ·space+8(SB), AX
	MOVQ  AX, ·lowered+8(SB)
	LEAQ  ·lowered(SB), DX
	XORL  R10, R10
	CALL(SYS_prlimit64)
	JMP   arguments

refuse:
	MOVL  $2, DI
	MOVQ  ·tooLittle(SB), SI
	MOVQ  ·tooLittle+8(SB), DX
	CALL(SYS_write)
	MOVL  $const_exitCode, DI
	CALL(SYS_exit_group)

arguments:
	// At SP: argc, argv[0], argv[1] ... Is the second "--helper" or "--helper-guard"?
	CMPQ 0(SP), $2
	JLT  runtime
	MOVQ 16(SP), BX
	MOVQ $0x7265706c65682d2d, AX
	CMPQ 0(BX), AX
	JNE  runtime
	CMPB 8(BX), $0
	JEQ  reaper
	CMPL 8(BX), $0x6175672d  // "-gua"
	JNE  runtime
	CMPL 11(BX), $0x00647261 // "ard", and its end
	JNE  runtime
	XORL R13, R13 // a guard has no helper
	JMP  ignore

reaper:
	MOVL  $36, DI // PR_SET_CHILD_SUBREAPER
	MOVL  $1, SI
	XORL  DX, DX
	XORL  R10, R10
	XORL  R8, R8
	CALL(SYS_prctl)
	TESTQ AX, AX
	JNE   runtime
	SIGACTION(1, ·ignored)   // SIGHUP
	SIGACTION(2, ·ignored)   // SIGINT
	SIGACTION(15, ·ignored)  // SIGTERM
	SIGACTION(17, ·standard) // SIGCHLD: wait4 fails if it is ignored

	MOVL  $0, DI // SIG_BLOCK
	LEAQ  ·all(SB), SI
	LEAQ  ·mask(SB), DX
	MOVL  $8, R10
	CALL(SYS_rt_sigprocmask)

	XORL  DI, DI // a page that both share; without it the reaper does not know the counts
	MOVL  $4096, SI
	MOVL  $3, DX     // PROT_READ|PROT_WRITE
	MOVL  $0x21, R10 // MAP_SHARED|MAP_ANONYMOUS
	MOVQ  $-1, R8
	XORL  R9, R9
	CALL(SYS_mmap)
	TESTQ AX, AX
	JLT   fork
	MOVQ  AX, ·shared(SB)

fork:
	CALL(SYS_getpid)
	MOVQ  AX, R12
	MOVL  $17, DI // SIGCHLD: a fork
	XORL  SI, SI
	XORL  DX, DX
	XORL  R10, R10
	XORL  R8, R8
	CALL(SYS_clone)
	MOVQ  AX, R13
	TESTQ AX, AX
	JLE   helper

	MOVL $2, ·part(SB)
	MOVL $0x70616572, 2(BX) // "reap"
	MOVL $15, DI            // PR_SET_NAME
	LEAQ ·name(SB), SI
	CALL(SYS_prctl)
	CLOSE(0)
	CLOSE(1) // 2 stays open, to print why the helper was killed

ignore:
	MOVL $64, R14
each: // drops pending signals, too: Go lets signals in before it handles them
	CMPL R14, $17
	JEQ  next
	MOVL R14, DI
	LEAQ ·ignored(SB), SI
	XORL DX, DX
	MOVL $8, R10
	CALL(SYS_rt_sigaction) // fails for SIGKILL and SIGSTOP
next:
	SUBL $1, R14
	JNE  each
	TESTQ R13, R13
	JEQ  guard

wait:
	MOVQ  R13, DI
	LEAQ  ·status(SB), SI
	XORL  DX, DX
	XORL  R10, R10
	CALL(SYS_wait4)
	CMPQ  AX, $-4 // EINTR
	JEQ   wait
	TESTQ AX, AX
	JLT   failed
	CMPL  ·status(SB), $0
	JNE   runtime

	MOVQ $-1, DI
	XORL SI, SI
	MOVL $1, DX // WNOHANG
	XORL R10, R10
	CALL(SYS_wait4)
	CMPQ AX, $-10 // ECHILD
	JNE  runtime
	XORL DI, DI
	CALL(SYS_exit_group)

guard:
	LEAQ ·pipe(SB), DI
	MOVL $1, SI
	XORL DX, DX // for ever
	XORL R10, R10
	MOVL $8, R8
	CALL(SYS_ppoll)
	CMPQ AX, $-4 // EINTR
	JEQ  guard
	JMP  runtime

failed:
	NEGL AX
	MOVL AX, ·errno(SB)
	JMP  runtime

helper: // or the fork failed
	MOVL  $2, DI // SIG_SETMASK
	LEAQ  ·mask(SB), SI
	XORL  DX, DX
	MOVL  $8, R10
	CALL(SYS_rt_sigprocmask)
	TESTQ R13, R13
	JNE   runtime

	MOVL $1, ·part(SB)
	MOVL $1, DI  // PR_SET_PDEATHSIG
	MOVL $15, SI // SIGTERM
	CALL(SYS_prctl)
	CALL(SYS_getppid)
	CMPQ AX, R12
	JEQ  runtime
	MOVL $143, DI // the reaper was killed before PR_SET_PDEATHSIG
	CALL(SYS_exit_group)

runtime: // it opens /dev/null for closed descriptors 0 to 2
	MOVL $1, DI
	MOVL $1, SI // F_GETFD
	CALL(SYS_fcntl)
	MOVL AX, ·stdout(SB)
	JMP  _rt0_amd64_linux(SB)

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
