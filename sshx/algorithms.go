package sshx

import (
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// defaultHostKeyAlgos returns the host key algorithms of x/crypto/ssh in OpenSSH's order (myproposal.h,
// KEX_DEFAULT_PK_ALG). Certificates come first, and ed25519, which is the fastest to verify, comes before the
// others.
func defaultHostKeyAlgos() []string {
	return []string{
		ssh.CertAlgoED25519v01,
		ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
		ssh.KeyAlgoED25519,
		ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
}

// These functions return the default algorithms for key exchange, MACs, and signatures of users and of
// certificate authorities. They are all algorithms of x/crypto/ssh that do not use SHA-1.
func defaultKex() []string         { return withoutSHA1(ssh.SupportedAlgorithms().KeyExchanges) }
func defaultMACs() []string        { return withoutSHA1(ssh.SupportedAlgorithms().MACs) }
func defaultPubkeyAlgos() []string { return withCertAlgos(defaultCAAlgos()) }
func defaultCAAlgos() []string     { return ssh.SupportedAlgorithms().PublicKeyAuths }

func withoutSHA1(algos []string) []string {
	return slices.DeleteFunc(algos, func(a string) bool { return strings.Contains(a, "sha1") })
}

// chooseAlgos applies the user's list to the defaults as OpenSSH does (kex.c, kex_assemble_names). "+a,b"
// appends, "-a,b*" removes, "^a,b" puts first, and any other list replaces the defaults. Names that are not
// in known are ignored silently, because users list the algorithms of their OpenSSH.
func chooseAlgos(list string, defaults, known []string) []string {
	if list == "" {
		return nil
	}
	mode := list[0]
	names := strings.Split(strings.TrimLeft(list, "+-^"), ",")
	if mode == '-' {
		return slices.DeleteFunc(slices.Clone(defaults), func(a string) bool { return matchPatterns(names, a) })
	}
	var chosen []string
	for _, n := range names {
		for _, a := range known {
			if matchWildcard(n, a) || n == preStandardName(a) {
				chosen = append(chosen, a)
			}
		}
	}
	switch mode {
	case '+':
		chosen = slices.Concat(defaults, chosen)
	case '^':
		chosen = slices.Concat(chosen, defaults)
	}
	return unique(chosen)
}

// preStandardName returns the name that an algorithm had before it was standardized, or "" if it had no other name.
func preStandardName(algo string) string {
	if algo == ssh.KeyExchangeCurve25519 {
		return "curve25519-sha256@libssh.org"
	}
	return ""
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

const certSuffix = "-cert-v01@openssh.com"

// withCertAlgos returns algos together with the certificate form of each algorithm.
func withCertAlgos(algos []string) []string {
	out := slices.Clone(algos)
	for _, a := range algos {
		base, sk := strings.CutSuffix(a, "@openssh.com")
		if sk {
			out = append(out, base+certSuffix)
		} else {
			out = append(out, a+certSuffix)
		}
	}
	return out
}

// keyType returns the type of key that an algorithm uses. For example, rsa-sha2-512 uses an ssh-rsa key (RFC
// 8332).
func keyType(algo string) string {
	base, cert := strings.CutSuffix(algo, certSuffix)
	if base == ssh.KeyAlgoRSASHA256 || base == ssh.KeyAlgoRSASHA512 {
		base = ssh.KeyAlgoRSA
	}
	if cert {
		return base + certSuffix
	}
	return base
}

// orderHostKeyAlgos moves to the front the algorithms for which known_hosts contains a key of the host (OpenSSH
// sshconnect2.c, order_hostkeyalgs). Without this, a host that is known by its ed25519 key and also has an rsa key
// could look as if its key had changed. If authority is true, known_hosts contains a certificate authority for the
// host; certificate algorithms then also move to the front.
func orderHostKeyAlgos(algos []string, known func(keyType string) bool, authority bool) []string {
	var first, last []string
	for _, a := range algos {
		isCert := strings.HasSuffix(a, certSuffix)
		if isCert && authority || !isCert && known(keyType(a)) {
			first = append(first, a)
		} else {
			last = append(last, a)
		}
	}
	return append(first, last...)
}
