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

// A HostsCommand prints lines of known_hosts for a host (KnownHostsCommand).
type HostsCommand struct {
	// Words are program and arguments. In arguments, late and a letter stand for a token that is known only when the
	// command is run.
	Words  []string
	Origin string // FILE:LINE
}

// late is what no argument of a program can contain.
const late = "\x00"

// hostsCommand splits the value into words, and replaces all tokens that are known already.
func (r *resolver) hostsCommand(set setting) (c HostsCommand) {
	if none(set.text) {
		return c
	}
	words, ok := splitWords(set.text, false)
	if !ok || strings.Contains(set.text, late) {
		r.fail(set, "unbalanced quote, or a NUL")
		return c
	}
	known := r.tokens(r.t)
	for i, word := range words {
		if i > 0 {
			var err error
			words[i], err = expandTokens(word, r.me.getenv, func(token byte) (string, bool) {
				if strings.IndexByte("HIKft", token) >= 0 {
					return late + string(token), true
				}
				return known(token)
			})
			if err != nil {
				r.fail(set, "%v", err)
			}
		}
	}
	return HostsCommand{Words: words, Origin: set.where()}
}

// words are those to run: reason is ORDER or HOSTNAME, key what the server has shown, if it has.
func (c HostsCommand) words(reason, name string, key ssh.PublicKey) []string {
	kind, print, text := "NONE", "NONE", "NONE"
	if key != nil {
		kind, print, text = key.Type(), ssh.FingerprintSHA256(plainKey(key)), keyText(key)
	}
	tokens := strings.NewReplacer(late+"H", name, late+"I", reason, late+"K", text, late+"f", print, late+"t", kind)
	words := slices.Clone(c.Words)
	for i := range words {
		words[i] = tokens.Replace(words[i])
	}
	return words
}

// A hostsAnswer is what a HostsCommand has printed.
type hostsAnswer struct {
	words []string // that were run
	file  *knownFile
}

// ask runs the HostsCommand of the target, unless it has answered the same question already, and looks the host up once
// more. A command that is not there is passed over, as ssh does (sshconnect.c, load_hostkeys_command).
func (h *hostKeys) ask(reason string, key ssh.PublicKey) error {
	c := h.t.KnownHostsCommand
	if c.Words == nil {
		return nil
	}
	words := c.words(reason, h.t.knownName(), key)
	if slices.Equal(h.answer.words, words) {
		return nil
	}
	if h.missing = missing(words[0]); h.missing != "" {
		return nil
	}
	defer h.clock.Pause()() // it has a time of its own
	var out capture
	err := runCommand(h.clock.Context(), h.d.limit(), &out, words...)
	if err == nil && out.cut {
		err = fmt.Errorf("it prints more than %d KiB", captureMax>>10)
	}
	if err != nil {
		return h.commandFailed(words, err)
	}
	h.answer = hostsAnswer{words, newKnownFile("output of "+words[0], out.String())}
	h.look()
	return nil
}

// missing says why a program cannot be run; it is empty if it can.
func missing(program string) string {
	if !filepath.IsAbs(program) {
		return program + " is not an absolute path"
	}
	if _, err := os.Stat(program); err != nil {
		return program + ": " + cause(err).Error()
	}
	return ""
}

// commandFailed ends the connection, as ssh does.
func (h *hostKeys) commandFailed(words []string, err error) error {
	ctx := h.clock.Context()
	if ctx.Err() != nil {
		return h.d.timeout(ctx, h.t, "host key", "")
	}
	e := fail(h.t, "host key", KindConfig, "KnownHostsCommand of %s failed: %v", tilde(h.t.Tilde, h.t.KnownHostsCommand.Origin), err).because(err).
		hint("run it by hand: %s; to do without it: --ssh-option KnownHostsCommand=none", quoted(words))
	var exit *ExitError
	if errors.As(err, &exit) {
		e.at("%s", exit.Message)
	}
	return e
}
