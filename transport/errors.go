package transport

// A Kind is a machine-readable class of errors. If package sshx has the same kind, both packages use the same string
// for it.
type Kind string

const (
	KindName       Kind = "unknown-name"  // the host name has no address
	KindNoRoute    Kind = "unreachable"   // no answer in time, no route
	KindRefused    Kind = "refused"       // nothing listens on the port
	KindUnknownKey Kind = "unknown-key"   // the host key is not known
	KindChangedKey Kind = "changed-key"   // another one is known
	KindLogin      Kind = "login"         // no key was accepted
	KindTooMany    Kind = "too-many-keys" // too many keys were tried
	KindBusy       Kind = "busy"          // the other side reports that it has too much to do: worth another try
	KindClosed     Kind = "closed"        // closed before the login, for an unknown reason: worth another try
	KindMismatch   Kind = "mismatch"      // no common algorithm
	KindSession    Kind = "session"       // logged in, but nothing could be started
	KindShell      Kind = "shell"         // logged in, but the login shell does not run /bin/sh
	KindLost       Kind = "lost"          // the connection broke
	KindCanceled   Kind = "canceled"      // the caller's context ended
	KindConfig     Kind = "config"        // a command or configuration that cannot work

	KindMissing Kind = "missing" // a program is not there
	KindNoexec  Kind = "noexec"  // the node does not allow the helper to be executed
	KindStore   Kind = "store"   // no directory of the node can store the binary
	KindMachine Kind = "machine" // the node has another architecture
	KindHelper  Kind = "helper"  // the helper ended before its first byte
	KindOther   Kind = "other"
)

// isDropped reports whether the other side is busy or has closed the connection before the login, as busy servers do.
func (k Kind) isDropped() bool { return k == KindBusy || k == KindClosed }

// An Error says at which step connecting to a host failed, and why.
type Error struct {
	Host    string
	Step    string // config, start, resolve, connect, host key, login, session, shell, deliver, helper
	Kind    Kind
	Why     string // one clause, the same for hosts with the same failure
	Details string // the part that differs between such hosts, such as the last line of a program; may be empty
	Remedy  string // hint for the user; may be empty
	Raw     string // stderr of the other side, for -v
	Err     error
}

func (e *Error) Error() string {
	if e.Details != "" {
		return e.Host + ": " + e.Reason() + " (" + e.Details + ")"
	}
	return e.Host + ": " + e.Reason()
}

func (e *Error) Unwrap() error { return e.Err }

// Reason returns the message without the host's name.
func (e *Error) Reason() string { return e.Step + ": " + e.Why }

// Detail returns the part of the message that may differ between hosts with the same failure.
func (e *Error) Detail() string { return e.Details }

// Hint returns what the user can do about the error. It may return "".
func (e *Error) Hint() string { return e.Remedy }

// Code returns the error's kind.
func (e *Error) Code() string { return string(e.Kind) }
