package transport

import (
	"cmp"
	"fmt"
	"strings"
)

// A Verdict says why a program that connects to a host, such as ssh or srun, has failed. It is derived from the
// program's exit code and stderr.
type Verdict struct {
	Kind Kind
	Step string
	Why  string
	Hint string
	Line string // line of stderr with the reason; empty if Why has it, or there is none
}

// A messageRule maps a message of OpenSSH 9.2 or of a shell to the cause of the failure. The first rule that
// matches is used, so more specific rules come first.
type messageRule struct {
	pattern       string // part of stderr, in lower case; alternatives are separated by |
	exit          int    // only with this exit code; 0 means any
	kind          Kind
	step          string
	why           string
	hint          string
	detailPattern string // part of a line that says more than the one with pattern, in lower case; empty if there is none
}

var messageRules = []messageRule{
	{pattern: "temporary failure in name resolution", kind: KindName, step: "resolve", why: "cannot look up host names",
		hint: "check /etc/resolv.conf, or set HostName for the host to an address in ~/.ssh/config"},
	{pattern: "could not resolve hostname|unknown host", kind: KindName, step: "resolve", why: "the host name is unknown",
		hint: "check the spelling, or set HostName for the host in ~/.ssh/config"},
	{pattern: "remote host identification has changed", kind: KindChangedKey, step: "host key", why: "the host key has changed",
		hint: "ask the administrator of the host whether its key has changed; if so, remove the old key from known_hosts", detailPattern: "offending "},
	{pattern: "host key verification failed", kind: KindUnknownKey, step: "host key", why: "the host key is not in known_hosts",
		hint: "check the host key, then log in once with ssh", detailPattern: "host key is known for"},
	{pattern: "too many authentication failures", kind: KindTooMany, step: "login", why: "the server refused the login after too many keys",
		hint: "set IdentitiesOnly yes and a single IdentityFile for this host in ~/.ssh/config"},
	{pattern: "permission denied (", kind: KindLogin, step: "login", why: "the server refused the login",
		hint: "copy your key to the host with ssh-copy-id HOST, or start the agent; for details, run: ssh -v HOST true"},
	{pattern: "banner exchange: connection timed out|timed out during banner exchange", kind: KindNoRoute, step: "connect", why: "the server does not answer"},
	{pattern: "connection refused", exit: 255, kind: KindRefused, step: "connect", why: "connection refused: no ssh server listens on this port"},
	{pattern: "no route to host|connection timed out|operation timed out|network is unreachable|host is down", kind: KindNoRoute, step: "connect", why: "the host cannot be reached"},
	{pattern: "unable to negotiate", kind: KindMismatch, step: "handshake", why: "client and server have no algorithm in common"},
	{pattern: "bad configuration option|bad owner or permissions|terminating, ", kind: KindConfig, step: "config", why: "the ssh configuration has an error"},
	{pattern: "session open refused by peer|open failed: administratively prohibited", kind: KindSession, step: "session", why: "the server refuses to open a session",
		hint: "MaxSessions in sshd_config on the host may be too low for a shared connection (ControlMaster)"},
	{pattern: "exceeded maxstartups", exit: 255, kind: KindBusy, step: "connect", why: "the server is busy: too many logins at once (MaxStartups)",
		hint: "lower --fanout, or raise MaxStartups in the server's sshd_config"},
	{pattern: "kex_exchange_identification|ssh_exchange_identification|connection reset by|connection closed by|not allowed at this time", exit: 255, kind: KindClosed, step: "connect", why: "the server closed the connection before the login",
		hint: "see the log of sshd on the host; if there are many logins at once, lower --fanout, or raise MaxStartups in sshd_config"},
	{pattern: "broken pipe|timeout, server|closed by remote host", exit: 255, kind: KindLost, step: "connection", why: "the connection broke"},
	{pattern: "this account is currently not available", kind: KindSession, step: "session", why: "the account on the node is not allowed to log in"},
}

/*
Classify returns why a remote-shell program has failed, from its exit code and stderr (cli.md SSH-5). An
exit code of -1 means that the code is unknown. A shell exits with 126 if it cannot execute a program and with
127 if it does not find the program. ssh exits with 255 for failures of its own.
*/
func Classify(stderr string, exit int) Verdict {
	lower := strings.ToLower(stderr)
	for _, s := range messageRules {
		if s.exit != 0 && s.exit != exit {
			continue
		}
		for text := range strings.SplitSeq(s.pattern, "|") {
			if strings.Contains(lower, text) {
				return Verdict{s.kind, s.step, s.why, s.hint, cmp.Or(lineWith(stderr, s.detailPattern), lineWith(stderr, text))}
			}
		}
	}
	switch exit {
	case 255:
		if lastLine(stderr) == "" { // OpenSSH 9.2 does this if a server drops many logins at once
			return Verdict{KindClosed, "connect", "ssh ended with exit code 255 and printed no message",
				"if there are many logins at once, lower --fanout, or raise MaxStartups in the server's sshd_config; for details, run: ssh -v HOST true", ""}
		}
	case 0:
		return Verdict{KindSession, "session", lastLineOr(stderr, "the login shell ended without running "+shell),
			"check whether a start-up file of the account on the host ends the shell", ""}
	case 126:
		return Verdict{KindNoexec, "helper", "the helper cannot be executed: " + lastLineOr(stderr, "exit code 126"),
			"if its file system is mounted noexec, set XDG_CACHE_HOME on the node to a folder from which programs can run", ""}
	case 127:
		return Verdict{KindMissing, "start", "not found: " + lastLineOr(stderr, "exit code 127"), "", ""}
	}
	return Verdict{KindOther, "start", lastLineOr(stderr, noMessageText(exit)), "", ""}
}

// lineWith returns the first line of text that contains part. It ignores the case of the text, but part must be in
// lower case. The result is "" if part is empty or no line contains it.
func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if part != "" && strings.Contains(strings.ToLower(line), part) {
			return lastLine(line)
		}
	}
	return ""
}

func noMessageText(exit int) string {
	if exit < 0 {
		return "the program ended without a message"
	}
	if killed := exitText(exit); strings.HasPrefix(killed, "killed") {
		return "it was " + killed
	}
	return fmt.Sprintf("the program ended with exit code %d and printed no message", exit)
}

// lastLineOr returns the last line of text. If text is blank, it returns fallback.
func lastLineOr(text, fallback string) string {
	if line := lastLine(text); line != "" {
		return line
	}
	return fallback
}
