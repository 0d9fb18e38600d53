/*
Package sshx connects to hosts as the user's ssh command would: with ~/.ssh/config, the agent,
keys, certificates, known hosts, jump hosts and proxy commands. It starts no process for each host.

	ReadConfig      files, Includes        -> Config     once per run
	Config.Resolve  alias, user, Machine   -> Target     once per host; a Machine runs commands and looks names up
	Dialer.Dial     Target                 -> Client     paced, with retries and time limits
	Client.Start    command                -> Session    stdin and stdout as one stream

	Dial:  jump host ready -> name -> [pacer] -> TCP -> version -> keys -> host key -> login
	                                    |                                              |
	                                    +----- one permit, released after the login ---+

A Dialer connects to many hosts at the same time. It reads each key and each known_hosts file only once, except
that it reads a known_hosts file again if a ProxyCommand may have changed the file. It connects only once to the
agent and to each jump host. It limits how many connections to one server are set up at the same time, because
sshd drops connections beyond MaxStartups.

Every failure is a *DialError. Its Kind is for programs. Its Reason is equal for hosts that fail
in the same way. Its Hint says what the user can do.

Passwords, keyboard-interactive, GSSAPI, host-based logins, PKCS#11 and forwarding are not
supported. If the configuration of a host depends on one of these, Resolve returns an error with
file, line and keyword.
*/
package sshx

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A User is the local user who makes connections. Tokens and Match criteria of the configuration refer to
// this user.
type User struct {
	Name   string                   // local login name, %u
	Home   string                   // home directory of the account, for %d and ~
	UID    int                      // %i
	Host   string                   // name of this host, %l
	Getenv func(name string) string // for ${NAME} and SSH_AUTH_SOCK; nil: empty environment

	// HomeOf returns the home directory of another user, for Include ~USER/...; empty if there is no
	// such user. If HomeOf is nil, no other user is known.
	HomeOf func(user string) string
}

// tilde returns Home if "~" means Home in the user's shell. It returns "" if $HOME is another directory.
func (u User) tilde() string {
	if home := u.getenv("HOME"); home != "" && home != u.Home {
		return ""
	}
	return u.Home
}

func (u User) getenv(name string) string {
	if u.Getenv == nil {
		return ""
	}
	return u.Getenv(name)
}

// A Target contains everything needed to connect to one host. An empty list or a zero duration means the default.
type Target struct {
	Alias    string // the name that the user wrote; shown in messages
	HostName string // host name or address to connect to
	Port     int
	User     string

	Via          []Target // jump hosts, first hop first; Via of the hops is empty
	ProxyCommand string   // with tokens (%h %p %r %n) not expanded; empty: none

	Identities     []string // private key files; nil: the default ones in Home; empty: none
	Certificates   []string // in addition to the -cert.pub files next to keys
	IdentitiesOnly bool     // offer only agent keys that are in Identities
	Agent          string   // path of the agent's socket; empty: none
	Home           string   // home directory of the account, which has the default keys
	Tilde          string   // the directory written as ~ in messages: Home, or empty if $HOME is another directory
	ConfigFile     string   // configuration file to name in messages; empty: ~/.ssh/config

	UserKnownHosts   []string // new keys are added to the first one
	GlobalKnownHosts []string
	RevokedKeys      []string // RevokedHostKeys: files with keys that are never accepted
	HostKeyAlias     string

	KnownHostsCommand HostsCommand
	VerifyDNS         string // FILE:LINE that asks for VerifyHostKeyDNS, which is not supported; empty: none

	Strict         string // yes, ask (refuses too), accept-new, no; empty: ask
	HashKnownHosts bool
	TrustLoopback  bool // NoHostAuthenticationForLocalhost
	OfJob          bool // the job owns the server and its known_hosts file, so Recorded is not called

	ConnectTimeout time.Duration // zero: Dialer.Timeout
	Attempts       int           // ConnectionAttempts; zero: 1
	AliveInterval  time.Duration // zero: 15 s, and lost after 45 s of silence
	AliveCountMax  int           // keep-alives without reply before the connection counts as lost; zero: 3
	BindAddress    string
	AddressFamily  string // any, inet, inet6

	HostKeyAlgorithms []string // nil: the defaults, ordered by the keys in known_hosts
	// HostKeyOrderFixed reports that the user listed HostKeyAlgorithms outright. Their order is then
	// kept (ssh_config(5), HostKeyAlgorithms).
	HostKeyOrderFixed bool
	Kex               []string
	Ciphers           []string
	MACs              []string
	PubkeyAlgorithms  []string
	CAAlgorithms      []string // CASignatureAlgorithms: algorithms that a certificate authority may sign with

	Unknown []Unknown // ignored lines with unknown keywords, including those in blocks of other hosts

	Tracer StepTracer
}

// A StepTracer is called when a step of connecting to a host begins, from any goroutine. The StepTracer returns
// a function that is called when the step ends, with nil or the step's error. Steps follow one another: jump,
// resolve, wait to connect, connect, key exchange, authentication. Between two attempts there is a step
// "pause". A nil StepTracer traces nothing.
type StepTracer func(step string) (end func(error))

func (w StepTracer) begin(step string) (end func(error)) {
	if w == nil {
		return func(error) {}
	}
	return w(step)
}

// configName returns the path of the user's configuration file, for messages.
func (t Target) configName() string {
	return cmp.Or(shortenHome(t.Tilde, t.ConfigFile), "~/.ssh/config")
}

// addr returns the target's address as host:port, for connecting and for messages.
func (t Target) addr() string {
	return net.JoinHostPort(t.HostName, strconv.Itoa(t.Port))
}

// knownName returns the name of this host in known_hosts (OpenSSH sshconnect.c, get_hostfile_hostname_ipaddr). It
// returns HostKeyAlias if that is set. Otherwise it returns the host name, or [host]:port if the port is not 22.
func (t Target) knownName() string {
	if t.HostKeyAlias != "" {
		return strings.ToLower(t.HostKeyAlias)
	}
	if t.Port == 22 {
		return strings.ToLower(t.HostName)
	}
	return fmt.Sprintf("[%s]:%d", strings.ToLower(t.HostName), t.Port)
}

// certName returns the name that a host certificate must contain as a principal.
func (t Target) certName() string {
	if t.HostKeyAlias != "" {
		return strings.ToLower(t.HostKeyAlias)
	}
	return strings.ToLower(t.HostName)
}

// shareKey returns a string that is equal for two targets if they can share a connection. Such targets lead to
// the same account of the same server by the same path.
func (t Target) shareKey() string {
	return fmt.Sprintf("%#v", t) // distinguishes nil from empty
}

// lastJump returns the target of the last jump host. The Via of the result lists the jump hosts before that
// one. t.Via must not be empty.
func (t Target) lastJump() Target {
	last := t.Via[len(t.Via)-1]
	last.Via = t.Via[:len(t.Via)-1]
	return last
}

// withDefaults returns t with defaults for all fields that Dial needs and that are not set.
func (t Target) withDefaults() Target {
	if t.HostName == "" {
		t.HostName = t.Alias
	}
	if t.Alias == "" {
		t.Alias = t.HostName
	}
	if t.Port == 0 {
		t.Port = 22
	}
	if t.Attempts < 1 {
		t.Attempts = 1
	}
	if t.AliveInterval <= 0 { // not set: a host is lost after 45 s (cli.md SIG-7)
		t.AliveInterval, t.AliveCountMax = 15*time.Second, 2
	}
	if t.AliveCountMax <= 0 {
		t.AliveCountMax = 3
	}
	t.applyModernDefaults()
	return t
}

// applyModernDefaults sets the lists of algorithms that the user has not set. No algorithm in these lists uses SHA-1
// (rule TRUST-21).
func (t *Target) applyModernDefaults() {
	for list, defaults := range map[*[]string]func() []string{
		&t.Kex: defaultKex, &t.MACs: defaultMACs, &t.PubkeyAlgorithms: defaultPubkeyAlgos, &t.CAAlgorithms: defaultCAAlgos,
	} {
		if *list == nil {
			*list = defaults()
		}
	}
}

// Silence returns how long the server may be silent before the connection is considered lost.
func (t Target) Silence() time.Duration {
	t = t.withDefaults()
	return t.AliveInterval * time.Duration(t.AliveCountMax+1)
}

// checkNames returns an error if a name would be dangerous as part of a ProxyCommand or as the value of a token
// (rule TRUST-23). It does not matter where the name comes from.
func (t Target) checkNames() error {
	for _, name := range []string{t.Alias, t.HostName, t.User} {
		if err := checkName(name); err != nil {
			return err
		}
	}
	for _, hop := range t.Via {
		if err := hop.checkNames(); err != nil {
			return err
		}
	}
	return nil
}

// checkName returns an error if a name has characters that a shell interprets, or looks like a command-line option.
func checkName(name string) error {
	bad := strings.HasPrefix(name, "-") || strings.ContainsAny(name, "'\"`\\$;&|<>(){}[]*?!~^#") ||
		strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) })
	if bad {
		return fmt.Errorf("%q cannot be the name of a host or user", name)
	}
	return nil
}
