package dialback

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
)

// A proof is what a helper says first, once TLS stands:
//
//	greeting | length of host, 1 byte | host | MAC, 32 bytes
//
// and mpiexec answers with the length of a text, 1 byte, and that text: why it is refused; none: it is welcome.
type proof struct {
	host string
	mac  [sha256.Size]byte
}

const proofHead = "remshell calls 1\n"

var errProof = errors.New("no helper of this version")

func (p proof) bytes() []byte {
	text := append([]byte(proofHead), byte(len(p.host)))
	return append(append(text, p.host...), p.mac[:]...)
}

// readProof reads one, and not a byte more.
func readProof(r io.Reader) (p proof, err error) {
	first := make([]byte, len(proofHead)+1)
	if _, err := io.ReadFull(r, first); err != nil {
		return p, fmt.Errorf("it said nothing that a helper says: %w", err)
	}
	if !bytes.HasPrefix(first, []byte(proofHead)) {
		return p, errProof
	}
	rest := make([]byte, int(first[len(proofHead)])+len(p.mac))
	if _, err := io.ReadFull(r, rest); err != nil {
		return p, fmt.Errorf("it said nothing that a helper says: %w", err)
	}
	p.host = string(rest[:len(rest)-len(p.mac)])
	copy(p.mac[:], rest[len(p.host):])
	return p, nil
}

// exporterLabel is what the two ends make a secret of their connection for (RFC 8446, 7.5).
const exporterLabel = "EXPORTER-remshell-callback"

// connectionMAC is what only who has the token can say on a connection, and about a host: said on another connection it
// means nothing.
func connectionMAC(token [32]byte, state tls.ConnectionState, host string) (mac [sha256.Size]byte, err error) {
	secret, err := state.ExportKeyingMaterial(exporterLabel, nil, 32)
	if err != nil {
		return mac, err
	}
	return computeMAC(token, secret, host), nil
}

// computeMAC is HMAC-SHA256 with the token of a connection's secret and a host.
func computeMAC(token [32]byte, secret []byte, host string) (mac [sha256.Size]byte) {
	h := hmac.New(sha256.New, token[:])
	h.Write(secret)
	io.WriteString(h, host)
	h.Sum(mac[:0])
	return mac
}

// writeAnswer sends why a helper is refused; empty: it is welcome.
func writeAnswer(w io.Writer, why string) error {
	why = why[:min(len(why), 255)]
	_, err := w.Write(append([]byte{byte(len(why))}, why...))
	return err
}

// readAnswer reads that, and not a byte more.
func readAnswer(r io.Reader) (why string, err error) {
	var length [1]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return "", err
	}
	text := make([]byte, length[0])
	_, err = io.ReadFull(r, text)
	return string(text), err
}
