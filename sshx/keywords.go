package sshx

import (
	"strings"
	"sync"

	"remshell/text"
)

// KeywordsOf is the version of OpenSSH whose keywords we know.
const KeywordsOf = "10.5"

// keywords are those of OpenSSH KeywordsOf and before, with what it ignores or does not support any more (readconf.c, keywords), and those
// that Debian, Red Hat and Apple add.
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

// isKeyword reports whether some ssh knows a keyword.
func isKeyword(word string) bool { return known()[strings.ToLower(word)] }

// meant is the keyword that a word differs from by a letter or two; empty: there is none.
func meant(word string) (keyword string) {
	best := min(2, len(word)/3) + 1
	for _, k := range keywords {
		if d := text.EditDistance(strings.ToLower(word), strings.ToLower(k)); d < best {
			best, keyword = d, k
		}
	}
	return keyword
}

// An Unknown is a line of a configuration file whose keyword is passed over since we do not know it.
type Unknown struct {
	File    string
	Line    int
	Keyword string
}

/*
stranger judges a line whose keyword no ssh of our time knows, and that IgnoreUnknown does not name.

ssh stops at such a line, wherever it stands. So do we if it is a misspelt keyword. If it resembles none, it may be one of an ssh that is
newer than this program: nearly every release of OpenSSH brings some, and so do patches. Then the line is noted and passed over.
*/
func (s *hostScope) stranger(set setting) error {
	if err := set.misspelt(); err != nil {
		return err
	}
	if s.final == "" { // the second pass comes to the same lines
		s.unknown = append(s.unknown, Unknown{set.file, set.line, set.keyword})
	}
	return nil
}

// misspelt is the error of a line whose keyword is nearly one; nil: it is not.
func (set setting) misspelt() error {
	keyword := meant(set.keyword)
	if keyword == "" {
		return nil
	}
	return set.fail("there is no such keyword (did you mean %s?)", keyword).withHint("correct it: ssh stops there, too")
}

// ignores reports whether IgnoreUnknown, as far as the files were read, names a keyword.
func (s *hostScope) ignores(set setting) bool {
	return matchHost(s.firstWord("ignoreunknown"), set.keyword)
}
