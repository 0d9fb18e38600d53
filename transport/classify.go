package transport

import (
	"cmp"
	"fmt"
	"strings"
)

// A Verdict says why a remote-shell program, such as ssh, has failed. It is derived from the program's
// exit code and stderr.
type Verdict struct {
	Kind Kind
	Step string
	Why  string
	Hint string
	Line string // line of stderr with the reason; empty if Why has it, or there is none
}

// A messageRule maps a message of OpenSSH 9.2 or of a shell to its meaning. The first rule that matches
// counts, so more specific rules come first.
type messageRule struct {
	text   string // part of stderr, in lower case; alternatives are separated by |
	exit   int    // only with this exit code; 0 means any
	kind   Kind
	step   string
	why    string
	hint   string
	detail string // part of a line that says more than the one with text, in lower case; empty if there is none
}

var messageRules = []messageRule{
	{"temporary failure in name resolution", 0, KindName, "resolve", "cannot look up host names",
		"see /etc/resolv.conf; or set HostName for the host to an address in ~/.ssh/config", ""},
	{"could not resolve hostname|unknown host", 0, KindName, "resolve", "host name unknown",
		"check the spelling, or give it a HostName in ~/.ssh/config", ""},
	{"remote host identification has changed", 0, KindChangedKey, "host key", "the host key has changed",
		"ask the administrator of the host whether its key has changed; if so, remove that line", "offending "},
	{"host key verification failed", 0, KindUnknownKey, "host key", "not in known_hosts",
		"check the key, then log in once with ssh", "host key is known for"},
	{"too many authentication failures", 0, KindTooMany, "login", "the server refused after too many keys",
		"set IdentitiesOnly yes and a single IdentityFile for this host in ~/.ssh/config", ""},
	{"permission denied (", 0, KindLogin, "login", "login refused",
		"copy your key there: ssh-copy-id HOST; is the agent running? try: ssh -v HOST true", ""},
	{"banner exchange: connection timed out|timed out during banner exchange", 0, KindNoRoute, "connect", "the server does not answer", "", ""},
	{"connection refused", 255, KindRefused, "connect", "connection refused: no ssh server on that port", "", ""},
	{"no route to host|connection timed out|operation timed out|network is unreachable|host is down", 0, KindNoRoute, "connect", "cannot reach", "", ""},
	{"unable to negotiate", 0, KindMismatch, "handshake", "client and server have no algorithm in common", "", ""},
	{"bad configuration option|bad owner or permissions|terminating, ", 0, KindConfig, "config", "the ssh configuration has an error", "", ""},
	{"session open refused by peer|open failed: administratively prohibited", 0, KindSession, "session", "the server refuses to open a session",
		"MaxSessions in its sshd_config may be too low for a shared connection (ControlMaster)", ""},
	{"exceeded maxstartups", 255, KindBusy, "connect", "the server is busy: too many logins at once (MaxStartups)",
		"lower --fanout, or raise MaxStartups in the server's sshd_config", ""},
	{"kex_exchange_identification|ssh_exchange_identification|connection reset by|connection closed by|not allowed at this time", 255, KindClosed, "connect", "the server closed the connection before the login",
		"the log of its sshd may say why; if many log in at once, lower --fanout, or raise MaxStartups in its sshd_config", ""},
	{"broken pipe|timeout, server|closed by remote host", 255, KindLost, "connection", "the connection broke", "", ""},
	{"this account is currently not available", 0, KindSession, "session", "the account on the node is not allowed to log in", "", ""},
}

/*
Classify returns why a remote-shell program has failed, from its exit code and stderr (cli.md SSH-5). An
exit code of -1 means that there is none. A shell exits with 126 if it cannot execute a program and with
127 if it does not find it. ssh exits with 255 for failures of its own.
*/
func Classify(stderr string, exit int) Verdict {
	lower := strings.ToLower(stderr)
	for _, s := range messageRules {
		if s.exit != 0 && s.exit != exit {
			continue
		}
		for text := range strings.SplitSeq(s.text, "|") {
			if strings.Contains(lower, text) {
				return Verdict{s.kind, s.step, s.why, s.hint, cmp.Or(lineWith(stderr, s.detail), lineWith(stderr, text))}
			}
		}
	}
	switch exit {
	case 255:
		if lastLine(stderr) == "" { // OpenSSH 9.2 does this if a server drops many logins at once
			return Verdict{KindClosed, "connect", "it ended with exit code 255 and printed no message",
				"to see why: ssh -v HOST true; if many log in at once, lower --fanout, or raise MaxStartups in the server's sshd_config", ""}
		}
	case 0:
		return Verdict{KindSession, "session", lastLineOr(stderr, "it ended without running "+shell),
			"check whether a start-up file of the account on the host ends the shell", ""}
	case 126:
		return Verdict{KindNoexec, "helper", "the helper cannot be executed: " + lastLineOr(stderr, "exit code 126"),
			"if its file system is mounted noexec, set XDG_CACHE_HOME on the node to a folder from which programs can run", ""}
	case 127:
		return Verdict{KindMissing, "start", "not found: " + lastLineOr(stderr, "exit code 127"), "", ""}
	}
	return Verdict{KindOther, "start", lastLineOr(stderr, noMessageText(exit)), "", ""}
}

// lineWith returns the first line that contains part, which must be in lower case. If part is empty, it
// returns "".
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
		return "it ended without a message"
	}
	if killed := exitText(exit); strings.HasPrefix(killed, "killed") {
		return "it was " + killed
	}
	return fmt.Sprintf("it ended with exit code %d and printed no message", exit)
}

// lastLineOr returns the last line of text. If text is blank, it returns otherwise.
func lastLineOr(text, otherwise string) string {
	if line := lastLine(text); line != "" {
		return line
	}
	return otherwise
}
