/*
Package sshx connects to a host the way the user's ssh command would: with
~/.ssh/config, the agent, keys, certificates, known hosts, jump hosts and proxy
commands, but without a process per host.

	ReadConfig      files, Includes        -> Config     once per run
	Config.Resolve  alias, user, Machine   -> Target     once per host; a Machine runs commands and looks names up
	Dialer.Dial     Target                 -> Client     paced, retried, deadlined
	Client.Start    command                -> Session    stdin and stdout as one stream

	Dial:  jump host ready -> name -> [pacer] -> TCP -> version -> keys -> host key -> login
	                                    |                                              |
	                                    +----- one place, given back after the login --+

A Dialer is made for a fan-out: it reads each key and each known_hosts file
once (again if a ProxyCommand may have changed it), opens the agent once,
connects to a jump host once, and paces what one
server gets at a time, so that sshd's MaxStartups is lived with.

Every failure is a *DialError with a Kind for programs, a Reason that is equal
for hosts that fail alike, and a Hint that says what to do.

It does not do passwords, keyboard-interactive, GSSAPI, host-based logins,
PKCS#11 or forwarding. Where the configuration of a host
depends on one of these, Resolve says so with file, line and keyword.
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

// A User is who connects, and from where: what the configuration's tokens and
// Match criteria may refer to.
type User struct {
	Name   string                   // local login name, %u
	Home   string                   // home directory of the account, %d and ~
	UID    int                      // %i
	Host   string                   // name of this machine, %l
	Getenv func(name string) string // ${NAME} and SSH_AUTH_SOCK; nil: empty environment

	// HomeOf returns the home directory of another user, for Include ~USER/...; empty: nobody knows that user.
	// If it is nil, no other user is known.
	HomeOf func(user string) string
}

// tilde is what ~ means to the user's shell, if that is Home; else it is empty.
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

// A Target is all that is needed to connect to one host. Lists that are empty
// and durations that are zero mean the default.
type Target struct {
	Alias    string // as the user wrote it; shown in messages
	HostName string // name or address to connect to
	Port     int
	User     string

	Via          []Target // jump hosts, first hop first; their own Via is empty
	ProxyCommand string   // with its tokens (%h %p %r %n) unexpanded; empty: none

	Identities     []string // private key files; nil: the default ones in Home
	Certificates   []string // besides the -cert.pub files next to keys
	IdentitiesOnly bool     // offer no agent keys that are not in Identities
	Agent          string   // socket of the agent; empty: none
	Home           string   // the folder of the account, where default keys are
	Tilde          string   // what ~ stands for in messages: Home; empty: nothing, since $HOME is another folder
	ConfigFile     string   // where the user can change what is said of the host, for messages; empty: ~/.ssh/config

	UserKnownHosts   []string // the first one gets new keys
	GlobalKnownHosts []string
	RevokedKeys      []string // RevokedHostKeys: lists of keys never to accept
	HostKeyAlias     string

	KnownHostsCommand HostsCommand
	VerifyDNS         string // FILE:LINE that wants keys looked up in DNS, which we do not; empty: none

	Strict         string // yes, ask (refuses too), accept-new, no; empty: ask
	HashKnownHosts bool
	TrustLoopback  bool // NoHostAuthenticationForLocalhost
	OfJob          bool // the server and its known_hosts file go with the job, so Recorded is not called

	ConnectTimeout time.Duration // zero: the Dialer's
	Attempts       int           // ConnectionAttempts; zero: 1
	AliveInterval  time.Duration // zero: 15 s, and lost after 45 s
	AliveCountMax  int           // unanswered keep-alives before the peer is lost; zero: 3
	BindAddress    string
	AddressFamily  string // any, inet, inet6

	HostKeyAlgorithms []string // nil: ours, in the order that fits known_hosts
	// HostKeyOrderFixed says the user listed HostKeyAlgorithms outright, so
	// that their order is kept (ssh_config(5), HostKeyAlgorithms).
	HostKeyOrderFixed bool
	Kex               []string
	Ciphers           []string
	MACs              []string
	PubkeyAlgorithms  []string
	CAAlgorithms      []string // CASignatureAlgorithms: with which authorities may sign

	Unknown []Unknown // lines that were passed over, also of what is said of other hosts

	Tracer StepTracer
}

// A StepTracer is told that a step toward a host begins, from any goroutine, and returns who is to be told
// of its end: nil, or what went wrong. Steps come one after the other: jump, resolve, turn, connect,
// key exchange, authentication; pause between two attempts. A nil Watch is nobody.
type StepTracer func(step string) (end func(error))

func (w StepTracer) begin(step string) (end func(error)) {
	if w == nil {
		return func(error) {}
	}
	return w(step)
}

// configName is how messages call the configuration file.
func (t Target) configName() string {
	return cmp.Or(shortenHome(t.Tilde, t.ConfigFile), "~/.ssh/config")
}

// addr is what is dialled and shown: host:port.
func (t Target) addr() string {
	return net.JoinHostPort(t.HostName, strconv.Itoa(t.Port))
}

// knownName is the name under which known_hosts has this host (OpenSSH
// sshconnect.c, get_hostfile_hostname_ipaddr): the alias for host keys as it
// is, else the name, in brackets and with the port unless that is 22.
func (t Target) knownName() string {
	if t.HostKeyAlias != "" {
		return strings.ToLower(t.HostKeyAlias)
	}
	if t.Port == 22 {
		return strings.ToLower(t.HostName)
	}
	return fmt.Sprintf("[%s]:%d", strings.ToLower(t.HostName), t.Port)
}

// certName is the name a host certificate must be made out to.
func (t Target) certName() string {
	if t.HostKeyAlias != "" {
		return strings.ToLower(t.HostKeyAlias)
	}
	return strings.ToLower(t.HostName)
}

// shareKey tells connections apart that may be shared: two targets with equal keys
// reach the same account of the same server on the same way.
func (t Target) shareKey() string {
	return fmt.Sprintf("%#v", t) // tells nil from empty
}

// lastJump is the target of the last jump host, with the ones before it as its own
// way there. It must not be called when Via is empty.
func (t Target) lastJump() Target {
	last := t.Via[len(t.Via)-1]
	last.Via = t.Via[:len(t.Via)-1]
	return last
}

// withDefaults fills what Dial needs a value for.
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
	if t.AliveInterval <= 0 { // the user asked for none: lost after 45 s (cli.md SIG-7)
		t.AliveInterval, t.AliveCountMax = 15*time.Second, 2
	}
	if t.AliveCountMax <= 0 {
		t.AliveCountMax = 3
	}
	t.applyModernDefaults()
	return t
}

// applyModernDefaults chooses the algorithms that the user did not: none of them needs SHA-1 (TRUST-21).
func (t *Target) applyModernDefaults() {
	for list, defaults := range map[*[]string]func() []string{
		&t.Kex: defaultKex, &t.MACs: defaultMACs, &t.PubkeyAlgorithms: defaultPubkeyAlgos, &t.CAAlgorithms: defaultCAAlgos,
	} {
		if *list == nil {
			*list = defaults()
		}
	}
}

// Silence is how long the other end may be silent before the connection is lost.
func (t Target) Silence() time.Duration {
	t = t.withDefaults()
	return t.AliveInterval * time.Duration(t.AliveCountMax+1)
}

// checkNames refuses names that could be something else than names where a ProxyCommand or
// a token has them, whoever let them in (TRUST-23).
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

// checkName refuses what means something to a shell, or to a program as an option.
func checkName(name string) error {
	bad := strings.HasPrefix(name, "-") || strings.ContainsAny(name, "'\"`\\$;&|<>(){}[]*?!~^#") ||
		strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) })
	if bad {
		return fmt.Errorf("%q cannot be the name of a host or user", name)
	}
	return nil
}
