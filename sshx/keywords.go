package sshx

import (
	"strings"
	"sync"

	"remshell/text"
)

// OpenSSHVersion is the newest OpenSSH version whose keywords this package knows.
const OpenSSHVersion = "10.5"

// keywords lists the keywords of OpenSSH up to version OpenSSHVersion (readconf.c, keywords), and the keywords
// that Debian, Red Hat and Apple add. It includes ignored and unsupported keywords.
var keywords = strings.Fields(`
	AddKeysToAgent AddressFamily AFSTokenPassing BatchMode BindAddress BindInterface CanonicalDomains CanonicalizeFallbackLocal CanonicalizeHostname
	CanonicalizeMaxDots CanonicalizePermittedCNAMEs CASignatureAlgorithms CertificateFile ChallengeResponseAuthentication ChannelTimeout CheckHostIP
	Cipher Ciphers ClearAllForwardings Compression CompressionLevel ConnectionAttempts ConnectTimeout ControlMaster ControlPath ControlPersist
	DSAAuthentication DynamicForward EnableEscapeCommandline EnableSSHKeysign EscapeChar ExitOnForwardFailure FallBackToRsh FingerprintHash
	ForkAfterAuthentication ForwardAgent ForwardX11 ForwardX11Timeout ForwardX11Trusted GatewayPorts GlobalKnownHostsFile GlobalKnownHostsFile2
	GSSAPIAuthentication GSSAPIDelegateCredentials HashKnownHosts HostbasedAcceptedAlgorithms HostbasedAuthentication HostbasedKeyTypes HostKeyAlgorithms
	HostKeyAlias Hostname IdentitiesOnly IdentityAgent IdentityFile IdentityFile2 IgnoreUnknown Include IPQoS KbdInteractiveAuthentication
	KbdInteractiveDevices KeepAlive KerberosAuthentication KerberosTgtPassing KexAlgorithms KnownHostsCommand LocalCommand LocalForward LogLevel
	LogVerbose MACs NoHostAuthenticationForLocalhost NumberOfPasswordPrompts ObscureKeystrokeTiming PasswordAuthentication PermitLocalCommand
	PermitRemoteOpen PKCS11Provider Port PreferredAuthentications Protocol ProxyCommand ProxyJump ProxyUseFdpass PubkeyAcceptedAlgorithms
	PubkeyAcceptedKeyTypes PubkeyAuthentication RefuseConnection RekeyLimit RemoteCommand RemoteForward RequestTTY RequiredRSASize RevokedHostKeys
	RhostsAuthentication RhostsRSAAuthentication RSAAuthentication SecurityKeyProvider SendEnv ServerAliveCountMax ServerAliveInterval SessionType SetEnv
	SkeyAuthentication SmartcardDevice StdinNull StreamLocalBindMask StreamLocalBindUnlink StrictHostKeyChecking SyslogFacility Tag TCPKeepAlive
	TISAuthentication Tunnel TunnelDevice UpdateHostKeys UsePrivilegedPort User UserKnownHostsFile UserKnownHostsFile2 UseRoaming UseRsh VerifyHostKeyDNS
	VersionAddendum VisualHostKey WarnWeakCrypto XAuthLocation

	GSSAPIClientIdentity GSSAPIKexAlgorithms GSSAPIKeyExchange GSSAPIRenewalForcesRekey GSSAPIServerIdentity GSSAPITrustDns ProtocolKeepAlives
	SetupTimeOut RSAMinSize UseKeychain`)

var known = sync.OnceValue(func() map[string]bool {
	m := make(map[string]bool, len(keywords))
	for _, k := range keywords {
		m[strings.ToLower(k)] = true
	}
	return m
})

// isKeyword reports whether word is a keyword in any version of ssh.
func isKeyword(word string) bool { return known()[strings.ToLower(word)] }

// closestKeyword returns a known keyword that differs from word by one or two letters, or "".
func closestKeyword(word string) (keyword string) {
	best := min(2, len(word)/3) + 1
	for _, k := range keywords {
		if d := text.EditDistance(strings.ToLower(word), strings.ToLower(k)); d < best {
			best, keyword = d, k
		}
	}
	return keyword
}

// An Unknown is a line of a configuration file that was ignored because its keyword is unknown.
type Unknown struct {
	File    string
	Line    int
	Keyword string
}

/*
handleUnknown handles a line with an unknown keyword that IgnoreUnknown does not name.

ssh returns an error for such a line, in any block. handleUnknown returns an error if the keyword looks
misspelt. Otherwise the keyword may belong to a newer ssh or to a patched one, since nearly every release of
OpenSSH adds some keywords. Then handleUnknown records the line and ignores it.
*/
func (s *hostScope) handleUnknown(set setting) error {
	if err := set.misspelt(); err != nil {
		return err
	}
	if s.final == "" { // the second pass reads the same lines
		s.unknown = append(s.unknown, Unknown{set.file, set.line, set.keyword})
	}
	return nil
}

// misspelt returns an error if the line's keyword looks like a misspelt known keyword. Otherwise it returns
// nil.
func (set setting) misspelt() error {
	keyword := closestKeyword(set.keyword)
	if keyword == "" {
		return nil
	}
	return set.fail("there is no such keyword (did you mean %s?)", keyword).withHint("correct the keyword; ssh refuses it, too")
}

// ignores reports whether IgnoreUnknown, in the lines read so far, names the keyword of a line.
func (s *hostScope) ignores(set setting) bool {
	return matchHost(s.firstWord("ignoreunknown"), set.keyword)
}
