package sshx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// A HostsCommand is a command that prints lines of known_hosts for a host (KnownHostsCommand).
type HostsCommand struct {
	// Words are the program and its arguments. In arguments, laterToken and a letter stand for a token
	// that is known only when the command runs.
	Words  []string
	Origin string // FILE:LINE
}

// laterToken marks a token, such as %K, whose value is known only when the command runs. The letter of the token
// follows it. An argument of a command cannot contain this byte.
const laterToken = "\x00"

// hostsCommand parses the value of KnownHostsCommand and expands the tokens whose values are already known.
func (r *resolver) hostsCommand(set setting) (c HostsCommand) {
	if isNone(set.text) {
		return c
	}
	words, ok := splitWords(set.text, false)
	if !ok || strings.Contains(set.text, laterToken) {
		r.fail(set, "the value has a quotation mark that is not closed, or a NUL byte")
		return c
	}
	known := r.tokensFor(r.t)
	for i, word := range words {
		if i > 0 {
			var err error
			words[i], err = expandTokens(word, r.me.getenv, func(token byte) (string, bool) {
				if strings.IndexByte("HIKft", token) >= 0 {
					return laterToken + string(token), true
				}
				return known(token)
			})
			if err != nil {
				r.fail(set, "%v", err)
			}
		}
	}
	return HostsCommand{Words: words, Origin: set.location()}
}

// words returns the words of the command to run. reason, the value of %I, is ORDER or HOSTNAME. name is the value of
// %H. key is the server's key, or nil if it is not yet known.
func (c HostsCommand) words(reason, name string, key ssh.PublicKey) []string {
	kind, print, text := "NONE", "NONE", "NONE"
	if key != nil {
		kind, print, text = key.Type(), ssh.FingerprintSHA256(plainKey(key)), keyText(key)
	}
	tokens := strings.NewReplacer(laterToken+"H", name, laterToken+"I", reason, laterToken+"K", text, laterToken+"f", print, laterToken+"t", kind)
	words := slices.Clone(c.Words)
	for i := range words {
		words[i] = tokens.Replace(words[i])
	}
	return words
}

// A hostsOutput is the output of a HostsCommand.
type hostsOutput struct {
	words []string // the words that were run
	file  *knownFile
}

// runHostsCommand runs the target's KnownHostsCommand and then looks the host up again. It does not run a command
// with the same words twice. Like ssh, it skips a command whose program does not exist (sshconnect.c,
// load_hostkeys_command).
func (h *hostKeyChecker) runHostsCommand(reason string, key ssh.PublicKey) error {
	c := h.t.KnownHostsCommand
	if c.Words == nil {
		return nil
	}
	words := c.words(reason, h.t.knownName(), key)
	if slices.Equal(h.commandOutput.words, words) {
		return nil
	}
	if h.commandMissing = whyMissing(words[0]); h.commandMissing != "" {
		return nil
	}
	defer h.clock.Pause()() // the command has its own time limit
	var out boundedOutput
	err := runCommand(h.clock.Context(), h.d.commandTimeout(), &out, words...)
	if err == nil && out.truncated {
		err = fmt.Errorf("it printed more than %d KiB", captureMax>>10)
	}
	if err != nil {
		return h.commandFailed(words, err)
	}
	h.commandOutput = hostsOutput{words, newKnownFile("output of "+words[0], out.String())}
	h.lookUpHost()
	return nil
}

// whyMissing returns why a program cannot be run, or "" if the program can be run.
func whyMissing(program string) string {
	if !filepath.IsAbs(program) {
		return program + " is not an absolute path"
	}
	if _, err := os.Stat(program); err != nil {
		return program + ": " + innermost(err).Error()
	}
	return ""
}

// commandFailed returns the error for a command that has failed with err. As in ssh, this failure ends the
// connection.
func (h *hostKeyChecker) commandFailed(words []string, err error) error {
	ctx := h.clock.Context()
	if ctx.Err() != nil {
		return h.d.timeout(ctx, h.t, "host key", "")
	}
	e := newDialError(h.t, "host key", KindConfig, "KnownHostsCommand of %s failed: %v", shortenHome(h.t.Tilde, h.t.KnownHostsCommand.Origin), err).withCause(err).
		withHint("disable the command with --ssh-option KnownHostsCommand=none, or run the command by hand: %s", quoted(words))
	var exit *ExitError
	if errors.As(err, &exit) {
		e.withDetails("%s", exit.Message)
	}
	return e
}
