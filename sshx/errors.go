package sshx

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
)

// A Kind says for programs what went wrong.
type Kind string

const (
	KindConfig     Kind = "config"        // the configuration asks for what we cannot do, or is wrong
	KindName       Kind = "unknown-name"  // the host name has no address
	KindNoRoute    Kind = "unreachable"   // no answer in time, no route
	KindRefused    Kind = "refused"       // nothing listens on the port
	KindUnknownKey Kind = "unknown-key"   // the host key is not in known_hosts
	KindChangedKey Kind = "changed-key"   // known_hosts has another key for the host
	KindRevokedKey Kind = "revoked-key"   // known_hosts says never to accept this key
	KindHostCert   Kind = "host-cert"     // signed by a known authority, but not valid
	KindLogin      Kind = "login"         // none of the keys was accepted
	KindTooMany    Kind = "too-many-keys" // the server lost patience with our keys
	KindBusy       Kind = "busy"          // the server says that it takes no more connections now; worth another try
	KindClosed     Kind = "closed"        // closed before the login, and nobody knows why; worth another try
	KindMismatch   Kind = "mismatch"      // no common algorithm, or no SSH server at all
	KindSession    Kind = "session"       // logged in, but the server starts nothing
	KindLost       Kind = "lost"          // an established connection broke
	KindCanceled   Kind = "canceled"      // the caller's context ended
	KindOther      Kind = "other"
)

// A DialError says which step toward which host failed.
type DialError struct {
	Host    string // the alias the user wrote
	Step    string // config, jump, resolve, connect, handshake, host key, login, session
	Kind    Kind
	Why     string // one clause, the same for all hosts that fail alike
	Details string // what differs between such hosts: address, fingerprint
	Err     error  // what the system or the library said; may be nil

	remedy     string
	command    string // the end of remedy that is for this host alone
	config     string // the configuration file, for hints
	isSentence bool   // Why is a sentence that needs no step in front
}

// Error is host, step, reason and detail on one line.
func (e *DialError) Error() string {
	s := e.Host + ": " + e.Reason()
	if e.Details != "" {
		s += " (" + e.Details + ")"
	}
	return s
}

// Reason is the message without the host's name and address, so that hosts
// that fail alike can be folded into one line.
func (e *DialError) Reason() string {
	if e.isSentence {
		return e.Why
	}
	return e.Step + ": " + e.Why
}

// Detail is what differs between hosts that fail alike; it may be empty.
func (e *DialError) Detail() string { return e.Details }

// Command is what the hint has the user type for this host alone; empty: nothing.
func (e *DialError) Command() string { return e.command }

// Code is the kind, for programs.
func (e *DialError) Code() string { return string(e.Kind) }

func (e *DialError) Unwrap() error { return e.Err }

// IsDropped reports whether the server ended the connection before the login, as one does that has too many.
func (k Kind) IsDropped() bool { return k == KindBusy || k == KindClosed }

// IsRetryable says that the same attempt may succeed a moment later.
func (e *DialError) IsRetryable() bool { return e.Kind.IsDropped() && e.Step != "jump" }

// Hint is what the user can do about it; empty when there is nothing to say.
func (e *DialError) Hint() string {
	if e.remedy != "" {
		return e.remedy
	}
	switch e.Kind {
	case KindName:
		return "check the spelling, or give it a HostName in " + cmp.Or(e.config, "~/.ssh/config")
	case KindRefused:
		return "start sshd there, or set Port for this host in " + cmp.Or(e.config, "~/.ssh/config")
	case KindUnknownKey:
		return "check the key with: ssh " + e.Host + " true, or record unknown keys with --accept-new-host-keys"
	case KindLogin:
		return "install a key on the host; is the agent running? try: ssh -v " + e.Host + " true"
	case KindTooMany:
		return "set IdentitiesOnly yes and one IdentityFile for this host in " + cmp.Or(e.config, "~/.ssh/config")
	case KindBusy:
		return "lower --fanout, or raise MaxStartups in the server's sshd_config"
	case KindClosed:
		return "the log of its sshd says why; if many log in at once, lower --fanout, or raise MaxStartups in its sshd_config"
	case KindHostCert:
		return "ask who runs the host"
	case KindRevokedKey:
		return "ask its administrator"
	}
	return ""
}

// newDialError makes an error of t without cause.
func newDialError(t Target, step string, kind Kind, why string, args ...any) *DialError {
	return &DialError{Host: t.Alias, Step: step, Kind: kind, Why: fmt.Sprintf(why, args...), config: t.configName()}
}

func (e *DialError) withDetails(format string, args ...any) *DialError {
	e.Details = fmt.Sprintf(format, args...)
	return e
}

func (e *DialError) withCause(err error) *DialError {
	e.Err = err
	return e
}

func (e *DialError) withHint(format string, args ...any) *DialError {
	e.remedy = fmt.Sprintf(format, args...)
	return e
}

// A ConfigError is a line of a configuration file that is wrong, or that asks
// for what this package cannot do.
type ConfigError struct {
	File    string
	Line    int    // 0: the file as a whole
	Keyword string // empty: the line as a whole
	Why     string

	remedy string
}

func (e *ConfigError) Error() string {
	where := e.File + ": "
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d: ", e.File, e.Line)
	}
	if e.Keyword != "" {
		where += e.Keyword + ": "
	}
	return where + e.Why
}

// useSSH is the way out where OpenSSH itself can do what we cannot.
const useSSH = "use -launcher-exec ssh"

// Hint is what the user can do about it; empty when there is nothing to say.
func (e *ConfigError) Hint() string { return e.remedy }

func (e *ConfigError) withHint(format string, args ...any) *ConfigError {
	e.remedy = fmt.Sprintf(format, args...)
	return e
}

// shortenHome shortens a path below home for a message.
func shortenHome(home, path string) string {
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok && home != "" {
		return "~/" + rest
	}
	return path
}
