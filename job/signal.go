package job

import "fmt"

// A Signal is a signal number of Linux, which all nodes run.
type Signal int

// These are the signals that mpiexec treats specially or passes on to ranks by default.
const (
	SIGHUP   Signal = 1
	SIGINT   Signal = 2
	SIGQUIT  Signal = 3
	SIGILL   Signal = 4
	SIGUSR1  Signal = 10
	SIGUSR2  Signal = 12
	SIGALRM  Signal = 14
	SIGTERM  Signal = 15
	SIGCONT  Signal = 18
	SIGSTOP  Signal = 19
	SIGTSTP  Signal = 20
	SIGWINCH Signal = 28
	SIGXCPU  Signal = 24
)

// signals lists the names and the strsignal(3) descriptions of all named signals, by number.
var signals = [...]struct{ name, text string }{
	1:  {"SIGHUP", "Hangup"},
	2:  {"SIGINT", "Interrupt"},
	3:  {"SIGQUIT", "Quit"},
	4:  {"SIGILL", "Illegal instruction"},
	5:  {"SIGTRAP", "Trace/breakpoint trap"},
	6:  {"SIGABRT", "Aborted"},
	7:  {"SIGBUS", "Bus error"},
	8:  {"SIGFPE", "Floating point exception"},
	9:  {"SIGKILL", "Killed"},
	10: {"SIGUSR1", "User defined signal 1"},
	11: {"SIGSEGV", "Segmentation fault"},
	12: {"SIGUSR2", "User defined signal 2"},
	13: {"SIGPIPE", "Broken pipe"},
	14: {"SIGALRM", "Alarm clock"},
	15: {"SIGTERM", "Terminated"},
	16: {"SIGSTKFLT", "Stack fault"},
	17: {"SIGCHLD", "Child exited"},
	18: {"SIGCONT", "Continued"},
	19: {"SIGSTOP", "Stopped (signal)"},
	20: {"SIGTSTP", "Stopped"},
	21: {"SIGTTIN", "Stopped (tty input)"},
	22: {"SIGTTOU", "Stopped (tty output)"},
	23: {"SIGURG", "Urgent I/O condition"},
	24: {"SIGXCPU", "CPU time limit exceeded"},
	25: {"SIGXFSZ", "File size limit exceeded"},
	26: {"SIGVTALRM", "Virtual timer expired"},
	27: {"SIGPROF", "Profiling timer expired"},
	28: {"SIGWINCH", "Window changed"},
	29: {"SIGIO", "I/O possible"},
	30: {"SIGPWR", "Power failure"},
	31: {"SIGSYS", "Bad system call"},
}

func (s Signal) hasName() bool { return s > 0 && int(s) < len(signals) }

// String returns the name of the signal as in kill(1), such as "SIGTERM". It returns a string such as "signal 34" if
// the signal has no name.
func (s Signal) String() string {
	if s.hasName() {
		return signals[s].name
	}
	return fmt.Sprint("signal ", int(s))
}

// Description returns the meaning of the signal, such as "Segmentation fault". It returns a string such as "Signal 34"
// if the signal has no name.
func (s Signal) Description() string {
	if s.hasName() {
		return signals[s].text
	}
	return fmt.Sprint("Signal ", int(s))
}

// SignalByName returns the signal with a name such as "SIGTERM", or 0 if no signal has that name.
func SignalByName(name string) Signal {
	for i, s := range signals {
		if i > 0 && s.name == name {
			return Signal(i)
		}
	}
	return 0
}
