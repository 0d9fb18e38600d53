package sshx

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// maxJumps is the maximum number of jump hosts in a chain. It is needed because the configuration may contain a
// loop.
const maxJumps = 16

// Resolve returns how to connect to alias, which may be user@host. The Target depends only on the arguments and on what
// machine returns. If the host needs something that this package does not support, the error is a *DialError of
// KindConfig that wraps a *ConfigError.
func (c *Config) Resolve(ctx context.Context, alias string, localUser User, machine Machine) (Target, error) {
	t, err := c.resolve(hostScope{ctx: ctx, machine: machine, me: localUser}, jumpSpec{host: alias, useOwnProxyJump: true}.splitUser(), nil)
	switch {
	case err == nil && slices.ContainsFunc(append(t.Via[:len(t.Via):len(t.Via)], t), func(hop Target) bool { return hop.User == "" }):
		return Target{}, newDialError(t, "config", KindConfig, "no user name to log in with: user ID %d has no account here", localUser.UID).
			withHint("write USER@HOST in the host list, or User NAME for the host in %s", t.configName())
	case err == nil:
		return t, nil
	case ctx.Err() != nil:
		end := context.Cause(ctx)
		return Target{}, newDialError(Target{Alias: alias}, "config", KindCanceled, "cancelled: %v", end).withCause(end)
	}
	return Target{}, configFailure(alias, err)
}

func configFailure(alias string, err error) *DialError {
	e := &DialError{Host: alias, Step: "config", Kind: KindConfig, Why: err.Error(), Err: err}
	var ce *ConfigError
	if errors.As(err, &ce) {
		e.remedy = ce.Hint()
	}
	return e
}

// A jumpSpec is one host of a ProxyJump value.
type jumpSpec struct {
	user, host      string
	port            int
	useOwnProxyJump bool // its own ProxyJump setting applies
}

func (h jumpSpec) splitUser() jumpSpec {
	if i := strings.LastIndexByte(h.host, '@'); i > 0 {
		h.user, h.host = h.host[:i], h.host[i+1:]
	}
	return h
}

// resolve returns the Target of one host. path lists the aliases of the hosts whose ProxyJump led to this host.
func (c *Config) resolve(s hostScope, spec jumpSpec, path []string) (Target, error) {
	if err := (Target{Alias: spec.host, User: spec.user}).checkNames(); err != nil {
		return Target{}, err
	}
	s.alias, s.user, s.port = spec.host, spec.user, spec.port
	hostName, err := c.collect(&s)
	if err != nil {
		return Target{}, err
	}
	r := resolver{hostScope: &s, seen: append(slices.Clip(path), spec.host)}
	r.refuseUnsupported()
	r.t = Target{Alias: spec.host, HostName: hostName, Home: s.me.Home, Tilde: s.me.tilde(), ConfigFile: c.userFile, User: s.username(), Unknown: s.unknown}
	r.t.Port = spec.port
	if r.t.Port == 0 {
		r.t.Port = r.number("port", 22, 1, math.MaxUint16)
	}
	r.t.HostKeyAlias = strings.ToLower(r.firstWord("hostkeyalias"))
	if r.err == nil {
		r.err = r.t.checkNames()
	}
	r.connection()
	r.identities()
	r.hostKeys()
	r.algorithms()
	if spec.useOwnProxyJump {
		r.proxy(c)
	}
	return r.t, r.err
}

// A resolver makes a Target from the settings of a hostScope. It keeps the first error, so that its methods need
// not return errors.
type resolver struct {
	*hostScope
	t    Target
	seen []string // aliases that lead to this host
	err  error
}

func (r *resolver) fail(set setting, format string, args ...any) {
	if r.err == nil {
		r.err = set.fail(format, args...)
	}
}

func (r *resolver) unsupported(set setting, format string, args ...any) {
	if r.err == nil {
		r.err = set.fail(format, args...).withHint(useSSH)
	}
}

// refuseUnsupported records an error if RefuseConnection is set, or if the login depends on an unsupported keyword.
func (r *resolver) refuseUnsupported() {
	if set, ok := r.first["refuseconnection"]; ok && r.err == nil {
		r.err = set.fail("%s", r.firstWord("refuseconnection")).withHint("ssh refuses this host, too; to use the host, remove RefuseConnection for it from that file")
	}
	if set := r.first["pkcs11provider"]; !isNone(set.text) {
		r.unsupported(set, "the built-in ssh does not support this value")
	}
	if set, ok := r.first["proxyusefdpass"]; ok && !strings.EqualFold(r.firstWord("proxyusefdpass"), "no") {
		r.unsupported(set, "the built-in ssh does not support this value")
	}
	if set, ok := r.first["pubkeyauthentication"]; ok && strings.EqualFold(r.firstWord("pubkeyauthentication"), "no") {
		r.unsupported(set, "the built-in ssh logs in only with keys, and PubkeyAuthentication is no")
	}
	if set, ok := r.first["preferredauthentications"]; ok {
		if methods := strings.Split(r.firstWord("preferredauthentications"), ","); !slices.Contains(methods, "publickey") {
			r.unsupported(set, "the built-in ssh supports only the method publickey, which the list does not contain")
		}
	}
}

func (r *resolver) connection() {
	r.t.ConnectTimeout = r.duration("connecttimeout")
	r.t.Attempts = r.number("connectionattempts", 1, 1, 1000)
	r.t.AliveInterval = r.duration("serveraliveinterval")
	r.t.AliveCountMax = r.number("serveralivecountmax", 3, 1, math.MaxInt32)
	r.t.BindAddress = r.firstWord("bindaddress")
	r.t.AddressFamily = r.choice("addressfamily", "any", "inet", "inet6")
}

func (r *resolver) identities() {
	r.t.IdentitiesOnly = r.yesNo("identitiesonly")
	for _, set := range r.lists["identityfile"] {
		if name := r.path(set, firstArg(set.text)); name != "" {
			r.t.Identities = append(r.t.Identities, name)
		} else if r.t.Identities == nil {
			r.t.Identities = []string{} // "none" excludes the default keys too
		}
	}
	for _, set := range r.lists["certificatefile"] {
		if name := r.path(set, firstArg(set.text)); name != "" {
			r.t.Certificates = append(r.t.Certificates, name)
		}
	}
	r.t.Agent = r.me.getenv("SSH_AUTH_SOCK")
	set, ok := r.first["identityagent"]
	switch word := r.firstWord("identityagent"); {
	case !ok || word == "SSH_AUTH_SOCK":
	case strings.HasPrefix(word, "$") && !strings.HasPrefix(word, "${"):
		r.t.Agent = r.me.getenv(word[1:])
	default:
		r.t.Agent = r.path(set, word)
	}
}

func (r *resolver) hostKeys() {
	r.t.UserKnownHosts = r.paths("userknownhostsfile", "~/.ssh/known_hosts", "~/.ssh/known_hosts2")
	r.t.GlobalKnownHosts = r.paths("globalknownhostsfile", "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
	r.t.RevokedKeys = r.paths("revokedhostkeys")
	r.t.KnownHostsCommand = r.hostsCommand(r.first["knownhostscommand"])
	if r.choice("verifyhostkeydns", "no", "false", "yes", "true", "ask") == "yes" {
		r.t.VerifyDNS = r.first["verifyhostkeydns"].location()
	}
	r.t.HashKnownHosts = r.yesNo("hashknownhosts")
	r.t.TrustLoopback = r.yesNo("nohostauthenticationforlocalhost")
	switch strict := r.choice("stricthostkeychecking", "ask", "yes", "true", "no", "false", "off", "accept-new"); strict {
	case "true":
		r.t.Strict = "yes"
	case "false", "off":
		r.t.Strict = "no"
	default:
		r.t.Strict = strict
	}
}

func (r *resolver) algorithms() {
	known, insecure := ssh.SupportedAlgorithms(), ssh.InsecureAlgorithms()
	r.t.Kex = r.algorithmList("kexalgorithms", defaultKex(), slices.Concat(known.KeyExchanges, insecure.KeyExchanges))
	r.t.Ciphers = r.algorithmList("ciphers", known.Ciphers, insecure.Ciphers)
	r.t.MACs = r.algorithmList("macs", defaultMACs(), slices.Concat(known.MACs, insecure.MACs))
	r.t.HostKeyAlgorithms = r.algorithmList("hostkeyalgorithms", defaultHostKeyAlgos(), insecure.HostKeys)
	first := r.firstWord("hostkeyalgorithms")
	r.t.HostKeyOrderFixed = first != "" && !strings.ContainsAny(first[:1], "+-^")
	key := "pubkeyacceptedalgorithms"
	if _, ok := r.first[key]; !ok {
		key = "pubkeyacceptedkeytypes" // its name before OpenSSH 8.5
	}
	r.t.PubkeyAlgorithms = r.algorithmList(key, defaultPubkeyAlgos(), withCertAlgos(insecure.PublicKeyAuths))
	r.t.CAAlgorithms = r.algorithmList("casignaturealgorithms", defaultCAAlgos(), insecure.PublicKeyAuths)
}

func (r *resolver) algorithmList(key string, defaults, extra []string) []string {
	set, ok := r.first[key]
	if !ok {
		return nil
	}
	list := chooseAlgos(r.firstWord(key), defaults, slices.Concat(defaults, extra))
	if len(list) == 0 {
		r.unsupported(set, "the built-in ssh supports none of these; it supports %s", strings.Join(defaults, ","))
	}
	return list
}

func (r *resolver) proxy(c *Config) {
	if set, ok := r.first["proxycommand"]; ok {
		if !strings.EqualFold(strings.TrimSpace(set.text), "none") {
			r.t.ProxyCommand = set.text
			if _, err := r.t.proxyCommand(); err != nil {
				r.fail(set, "%v", err)
			}
		}
		return
	}
	set, ok := r.first["proxyjump"]
	if !ok || strings.EqualFold(r.firstWord("proxyjump"), "none") {
		return
	}
	jumps, err := expandTokens(r.firstWord("proxyjump"), nil, r.t.token)
	if err != nil {
		r.fail(set, "%v", err)
		return
	}
	for i, text := range strings.Split(jumps, ",") {
		spec, err := parseJump(strings.TrimSpace(text))
		if err != nil {
			r.fail(set, "%v", err)
			return
		}
		spec.useOwnProxyJump = i == 0 // later hops are reached through the first
		if spec.host == r.t.Alias {
			return // "Host *" gives the jump host itself as its jump host
		}
		if slices.Contains(r.seen, spec.host) || len(r.seen) > maxJumps {
			r.fail(set, "jump hosts form a loop: %s", strings.Join(append(r.seen, spec.host), " > "))
			return
		}
		hop, err := c.resolve(hostScope{ctx: r.ctx, machine: r.machine, me: r.me}, spec, r.seen)
		if err != nil {
			if r.err == nil {
				r.err = err
			}
			return
		}
		via := hop.Via
		hop.Via = nil
		r.t.Via = append(append(r.t.Via, via...), hop)
	}
}

// parseJump parses [user@]host[:port] or ssh://[user@]host[:port].
func parseJump(text string) (jumpSpec, error) {
	h := jumpSpec{host: strings.TrimSuffix(strings.TrimPrefix(text, "ssh://"), "/")}.splitUser()
	if host, port, err := net.SplitHostPort(h.host); err == nil {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > math.MaxUint16 {
			return h, fmt.Errorf("the port in %q is not a number from 1 to 65535", text)
		}
		h.host, h.port = host, n
	}
	h.host = strings.Trim(h.host, "[]")
	if h.host == "" {
		return h, fmt.Errorf("%q contains no host", text)
	}
	return h, nil
}

func firstArg(text string) string {
	args, _ := splitArgs(text)
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// number parses a keyword's value as a decimal number from 0 to hi. It raises a number below lo to lo. If the
// keyword is not set, it returns def.
func (r *resolver) number(key string, def, lo, hi int) int {
	set, ok := r.first[key]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(r.firstWord(key))
	if err != nil || n < 0 || n > hi {
		r.fail(set, "%q is not a number from %d to %d", r.firstWord(key), lo, hi)
		return def
	}
	return max(n, lo)
}

func (r *resolver) yesNo(key string) bool {
	return r.choice(key, "no", "yes", "true", "false") == "yes" || r.firstWord(key) == "true"
}

// choice returns the value of a keyword in lower case. Values other than def and allowed are errors. If the
// keyword is not set, choice returns def.
func (r *resolver) choice(key, def string, allowed ...string) string {
	set, ok := r.first[key]
	if !ok {
		return def
	}
	word := strings.ToLower(r.firstWord(key))
	if word != def && !slices.Contains(allowed, word) {
		r.fail(set, "%q is not one of %s", r.firstWord(key), strings.Join(append([]string{def}, allowed...), ", "))
	}
	return word
}

// duration returns the value of a keyword as a duration in OpenSSH's format (sshd_config(5), TIME FORMATS). If the
// keyword is not set or has the value "none", duration returns 0.
func (r *resolver) duration(key string) time.Duration {
	set, ok := r.first[key]
	word := r.firstWord(key)
	if !ok || strings.EqualFold(word, "none") {
		return 0
	}
	d, err := parseTime(word)
	if err != nil {
		r.fail(set, "%v", err)
	}
	return d
}

// parseTime parses a duration such as "90", "1m30s" or "2h". The units are s, m, h, d and w. A number without a
// unit is in seconds.
func parseTime(s string) (time.Duration, error) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	total := time.Duration(0)
	for rest := s; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time", s)
		}
		unit := time.Second
		if rest = rest[digits:]; rest != "" {
			u, ok := units[rest[0]|0x20]
			if !ok {
				return 0, fmt.Errorf("%q is not a time; units are s m h d w", s)
			}
			unit, rest = u, rest[1:]
		}
		total += time.Duration(n) * unit
	}
	return total, nil
}

// paths returns a keyword's value as a list of file names, with tokens expanded. If the keyword is not set, its value
// is defaults. The value "none" means an empty list.
func (r *resolver) paths(key string, defaults ...string) []string {
	set, ok := r.first[key]
	names := defaults
	if ok {
		names, _ = splitArgs(set.text)
	}
	var list []string
	for _, name := range names {
		if p := r.path(set, name); p != "" {
			list = append(list, p)
		}
	}
	return list
}

// path expands "~", environment variables and tokens in a file name. It returns "" for the name "none".
func (r *resolver) path(set setting, name string) string {
	if strings.EqualFold(name, "none") {
		return ""
	}
	home, rest := "", name
	if strings.HasPrefix(name, "~") {
		user, below, _ := strings.Cut(name[1:], "/")
		home, rest = r.homeOf(set, user)+"/", below
	}
	rest = r.expand(set, rest)
	if home != "" {
		return filepath.Join(home, rest)
	}
	return rest
}

// homeOf returns the home directory of a user. An empty user means the local user.
func (r *resolver) homeOf(set setting, user string) string {
	if user == "" {
		return r.me.Home
	}
	home, err := r.machine.HomeOf(r.ctx, user)
	if err != nil {
		r.fail(set, "the home directory of %s is not known: %v", user, err)
	}
	return home
}

// expand replaces tokens and environment variables, written ${NAME}, in text.
func (r *resolver) expand(set setting, text string) string {
	out, err := expandTokens(text, r.me.getenv, r.tokensFor(r.t))
	if err != nil {
		r.fail(set, "%v", err)
	}
	return out
}

// tokensFor returns a function that returns the value of a token (such as %h) for a connection to t (ssh_config(5),
// TOKENS). ok is false if the token is unknown.
func (s *hostScope) tokensFor(t Target) func(c byte) (text string, ok bool) {
	short, _, _ := strings.Cut(s.me.Host, ".")
	jump := s.firstWord("proxyjump")
	return func(c byte) (string, bool) {
		switch c {
		case 'C':
			sum := sha1.Sum([]byte(s.me.Host + t.HostName + strconv.Itoa(t.Port) + t.User + jump))
			return hex.EncodeToString(sum[:]), true
		case 'd':
			return s.me.Home, true
		case 'i':
			return strconv.Itoa(s.me.UID), true
		case 'j':
			return jump, true
		case 'L':
			return short, true
		case 'l':
			return s.me.Host, true
		case 'u':
			return s.me.Name, true
		}
		return t.token(c)
	}
}

// token returns the value of a token that depends only on the target. ProxyCommand and ProxyJump allow only such
// tokens. ok is false for any other token.
func (t Target) token(c byte) (text string, ok bool) {
	switch c {
	case 'h':
		return t.HostName, true
	case 'k':
		return cmp.Or(t.HostKeyAlias, t.Alias), true
	case 'n':
		return t.Alias, true
	case 'p':
		return strconv.Itoa(t.Port), true
	case 'r':
		return t.User, true
	}
	return "", false
}

// expandTokens replaces each token %x with the result of value, and %% with a percent sign. If getenv is not nil, it
// also replaces ${NAME} with the value of the environment variable. As in OpenSSH, a variable that is not set is an
// error.
func expandTokens(text string, getenv func(name string) string, value func(byte) (string, bool)) (string, error) {
	var b strings.Builder
	for text != "" {
		name, after, closed := "", "", false
		switch {
		case getenv != nil && strings.HasPrefix(text, "${"):
			name, after, closed = strings.Cut(text[2:], "}")
			v := getenv(name)
			if !closed || v == "" {
				return "", fmt.Errorf("environment variable ${%s} is not set", name)
			}
			b.WriteString(v)
			text = after
		case text[0] != '%':
			b.WriteByte(text[0])
			text = text[1:]
		case len(text) == 1:
			return "", errors.New("the value ends with a single %")
		case text[1] == '%':
			b.WriteByte('%')
			text = text[2:]
		default:
			v, ok := value(text[1])
			if !ok {
				return "", fmt.Errorf("unknown token %%%c", text[1])
			}
			b.WriteString(v)
			text = text[2:]
		}
	}
	return b.String(), nil
}

// proxyCommand returns the proxy command as a command line for sh, with tokens expanded.
func (t Target) proxyCommand() (string, error) { return expandTokens(t.ProxyCommand, nil, t.token) }
