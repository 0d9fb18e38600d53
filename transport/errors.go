package transport

// A Kind says for programs what went wrong. Those that package sshx has too are
// spelled as there.
type Kind string

const (
	KindName       Kind = "unknown-name"  // the host name has no address
	KindNoRoute    Kind = "unreachable"   // no answer in time, no route
	KindRefused    Kind = "refused"       // nothing listens on the port
	KindUnknownKey Kind = "unknown-key"   // the host key is not known
	KindChangedKey Kind = "changed-key"   // another one is known
	KindLogin      Kind = "login"         // no key was accepted
	KindTooMany    Kind = "too-many-keys" // the server lost patience with our keys
	KindBusy       Kind = "busy"          // the far side says that it has too much to do: worth another try
	KindClosed     Kind = "closed"        // closed before the login, and nobody knows why: worth another try
	KindMismatch   Kind = "mismatch"      // no common algorithm
	KindSession    Kind = "session"       // logged in, but nothing could be started
	KindShell      Kind = "shell"         // logged in, but the login shell does not come to run /bin/sh
	KindLost       Kind = "lost"          // the connection broke
	KindCanceled   Kind = "canceled"      // the caller's context ended
	KindConfig     Kind = "config"        // a command or configuration that cannot work

	KindMissing Kind = "missing" // a program is not there
	KindNoexec  Kind = "noexec"  // the node lets nothing of ours be executed
	KindStore   Kind = "store"   // no place for the program on the node
	KindMachine Kind = "machine" // the node runs another kind of program
	KindHelper  Kind = "helper"  // the helper ended before it spoke
	KindOther   Kind = "other"
)

// isDropped reports whether the far side ended the connection before the login, as one does that has too many.
func (k Kind) isDropped() bool { return k == KindBusy || k == KindClosed }

// An Error says which step toward which host failed.
type Error struct {
	Host    string
	Step    string // config, start, resolve, connect, host key, login, session, shell, deliver, helper
	Kind    Kind
	Why     string // one clause, the same for hosts that fail alike
	Details string // what differs between such hosts: the last words of a program; may be empty
	Remedy  string // what the user can do; empty: nothing to say
	Raw     string // what the far side said, for -v
	Err     error
}

func (e *Error) Error() string {
	if e.Details != "" {
		return e.Host + ": " + e.Reason() + " (" + e.Details + ")"
	}
	return e.Host + ": " + e.Reason()
}

func (e *Error) Unwrap() error { return e.Err }

// Reason is the message without the host's name.
func (e *Error) Reason() string { return e.Step + ": " + e.Why }

// Detail is what differs between hosts that fail alike.
func (e *Error) Detail() string { return e.Details }

// Hint is what the user can do about it; empty when there is nothing to say.
func (e *Error) Hint() string { return e.Remedy }

// Code is the kind, for programs.
func (e *Error) Code() string { return string(e.Kind) }
