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

// A proof is the helper's first message after the TLS handshake:
//
//	greeting | length of host, 1 byte | host | MAC, 32 bytes
//
// mpiexec replies with one byte, which is the length of a message, and the message itself. The message says why mpiexec
// rejects the helper. It is empty if mpiexec accepts the helper.
type proof struct {
	host string
	mac  [sha256.Size]byte
}

const proofHead = "remshell calls 1\n"

var errProof = errors.New("the connection does not come from a helper of this version")

func (p proof) bytes() []byte {
	text := append([]byte(proofHead), byte(len(p.host)))
	return append(append(text, p.host...), p.mac[:]...)
}

// readProof reads a proof, and no bytes after it.
func readProof(r io.Reader) (p proof, err error) {
	first := make([]byte, len(proofHead)+1)
	if _, err := io.ReadFull(r, first); err != nil {
		return p, fmt.Errorf("the connection did not prove that it comes from a helper: %w", err)
	}
	if !bytes.HasPrefix(first, []byte(proofHead)) {
		return p, errProof
	}
	rest := make([]byte, int(first[len(proofHead)])+len(p.mac))
	if _, err := io.ReadFull(r, rest); err != nil {
		return p, fmt.Errorf("the connection did not prove that it comes from a helper: %w", err)
	}
	p.host = string(rest[:len(rest)-len(p.mac)])
	copy(p.mac[:], rest[len(p.host):])
	return p, nil
}

// exporterLabel is the label that both sides use to derive a secret from their TLS connection (RFC 8446, 7.5).
const exporterLabel = "EXPORTER-remshell-callback"

// secretLabel is the beginning of the text from which the key of a proof is computed if the token is not
// secret.
const secretLabel = "remshell join token\n"

// secretKey returns the key of a proof for a token that other users may read. The key is an HMAC-SHA256 of the
// token, keyed with secret.
func secretKey(token [32]byte, secret string) (key [32]byte) {
	h := hmac.New(sha256.New, []byte(secret))
	io.WriteString(h, secretLabel)
	h.Write(token[:])
	h.Sum(key[:0])
	return key
}

// connectionMAC returns the MAC that proves that a helper has the token. The MAC depends on the connection and the
// host, so that it is invalid on any other connection.
func connectionMAC(token [32]byte, state tls.ConnectionState, host string) (mac [sha256.Size]byte, err error) {
	secret, err := state.ExportKeyingMaterial(exporterLabel, nil, 32)
	if err != nil {
		return mac, err
	}
	return computeMAC(token, secret, host), nil
}

// computeMAC returns the HMAC-SHA256 of a secret, which belongs to one connection, and a host name. The HMAC is
// keyed with the token.
func computeMAC(token [32]byte, secret []byte, host string) (mac [sha256.Size]byte) {
	h := hmac.New(sha256.New, token[:])
	h.Write(secret)
	io.WriteString(h, host)
	h.Sum(mac[:0])
	return mac
}

// writeAnswer sends mpiexec's reply to a proof. refusal is the reason for refusing the helper, or empty to
// accept it.
func writeAnswer(w io.Writer, refusal string) error {
	refusal = refusal[:min(len(refusal), 255)]
	_, err := w.Write(append([]byte{byte(len(refusal))}, refusal...))
	return err
}

// readReply reads mpiexec's reply to a proof, and no bytes after it.
func readReply(r io.Reader) (refusal string, err error) {
	var length [1]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return "", err
	}
	text := make([]byte, length[0])
	_, err = io.ReadFull(r, text)
	return string(text), err
}
