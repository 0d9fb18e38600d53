package sshx

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
)

// A Kind is a machine-readable class of errors.
type Kind string

const (
	KindConfig     Kind = "config"        // the configuration is wrong, or needs something unsupported
	KindName       Kind = "unknown-name"  // the host name has no address
	KindNoRoute    Kind = "unreachable"   // no reply in time, or no route
	KindRefused    Kind = "refused"       // nothing listens on the port
	KindUnknownKey Kind = "unknown-key"   // the host key is not in known_hosts
	KindChangedKey Kind = "changed-key"   // known_hosts has another key for the host
	KindRevokedKey Kind = "revoked-key"   // known_hosts revokes this key
	KindHostCert   Kind = "host-cert"     // the certificate is signed by a known authority, but not valid
	KindLogin      Kind = "login"         // none of the keys was accepted
	KindTooMany    Kind = "too-many-keys" // the server's limit of login attempts was reached
	KindBusy       Kind = "busy"          // the server says that it has too many connections; try again
	KindClosed     Kind = "closed"        // closed before the login for an unknown reason; try again
	KindMismatch   Kind = "mismatch"      // no common algorithm, or no SSH server at all
	KindSession    Kind = "session"       // logged in, but the server starts no command
	KindLost       Kind = "lost"          // an established connection broke
	KindCanceled   Kind = "canceled"      // the caller's context ended
	KindOther      Kind = "other"
)

// A DialError says at which step connecting to a host failed, and why.
type DialError struct {
	Host    string // the alias that the user wrote
	Step    string // config, jump, resolve, connect, handshake, host key, login, session
	Kind    Kind
	Why     string // one clause, equal for hosts that fail in the same way
	Details string // what differs between these hosts: address, fingerprint
	Err     error  // the error of the system or the library; may be nil

	remedy     string
	command    string // the part of the remedy that is for this host only
	config     string // the configuration file, for hints
	isSentence bool   // Why is a sentence that needs no step in front of it
}

// Error returns the host, step, reason and details on one line.
func (e *DialError) Error() string {
	s := e.Host + ": " + e.Reason()
	if e.Details != "" {
		s += " (" + e.Details + ")"
	}
	return s
}

// Reason returns the message without the host's name and details. The result is equal for hosts that fail in
// the same way, so that a caller can list these hosts on one line.
func (e *DialError) Reason() string {
	if e.isSentence {
		return e.Why
	}
	return e.Step + ": " + e.Why
}

// Detail returns the part of the message that differs between hosts with the same Reason. It may return "".
func (e *DialError) Detail() string { return e.Details }

// Command returns the part of the hint that is a command for this host only, or "".
func (e *DialError) Command() string { return e.command }

// Code returns the error's kind.
func (e *DialError) Code() string { return string(e.Kind) }

func (e *DialError) Unwrap() error { return e.Err }

// IsDropped reports whether the server has closed the connection before the login, as servers with too many
// connections do.
func (k Kind) IsDropped() bool { return k == KindBusy || k == KindClosed }

// IsRetryable reports whether another attempt shortly afterwards may succeed.
func (e *DialError) IsRetryable() bool { return e.Kind.IsDropped() && e.Step != "jump" }

// Hint returns what the user can do about the error, or "".
func (e *DialError) Hint() string {
	if e.remedy != "" {
		return e.remedy
	}
	switch e.Kind {
	case KindName:
		return "check the spelling, or set HostName for the host in " + cmp.Or(e.config, "~/.ssh/config")
	case KindRefused:
		return "start sshd there, or set Port for this host in " + cmp.Or(e.config, "~/.ssh/config")
	case KindUnknownKey:
		return "record unknown keys with --accept-new-host-keys, or check the key with: ssh " + e.Host + " true"
	case KindLogin:
		return "copy your key to the host with ssh-copy-id " + e.Host + ", or start the agent; for details, run: ssh -v " + e.Host + " true"
	case KindTooMany:
		return "set IdentitiesOnly yes and a single IdentityFile for this host in " + cmp.Or(e.config, "~/.ssh/config")
	case KindBusy:
		return "lower --fanout, or raise MaxStartups in the server's sshd_config"
	case KindClosed:
		return "see the log of sshd on the host; if there are many logins at once, lower --fanout, or raise MaxStartups in sshd_config"
	case KindHostCert:
		return "ask the administrator of the host for a valid host certificate"
	case KindRevokedKey:
		return "ask the administrator of the host why its key is revoked"
	}
	return ""
}

// newDialError returns an error about t that wraps no other error.
func newDialError(t Target, step string, kind Kind, reason string, args ...any) *DialError {
	return &DialError{Host: t.Alias, Step: step, Kind: kind, Why: fmt.Sprintf(reason, args...), config: t.configName()}
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

// A ConfigError is returned for a line of a configuration file that is wrong or needs something that is not
// supported.
type ConfigError struct {
	File    string
	Line    int    // 0: the whole file
	Keyword string // empty: the whole line
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

// useSSH is the hint for a feature that OpenSSH supports and this package does not.
const useSSH = "use -launcher-exec ssh"

// Hint returns what the user can do about the error, or "".
func (e *ConfigError) Hint() string { return e.remedy }

func (e *ConfigError) withHint(format string, args ...any) *ConfigError {
	e.remedy = fmt.Sprintf(format, args...)
	return e
}

// shortenHome replaces the home directory at the start of a path with "~", for messages.
func shortenHome(home, path string) string {
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok && home != "" {
		return "~/" + rest
	}
	return path
}
