/*
Package selftest implements the program that the ranks of mpiexec --selftest run. In mpiexec, it evaluates the reports
of these ranks. The ranks need no MPI library: they use PMI-1, and connect to each other by TCP in a ring.

	mpiexec                                  rank                             next rank
	   | a line of input, to rank 0 -------->  |                                  |
	   |                                       | PMI: put my address, fence, get the next rank's
	   | <-- started                           |                                  |
	   |                                       | TCP: its secret ---------------> |
	   |                                       | <------------------------ a byte |
	   |                                       | 64 KiB, as large packets ------> |
	   |                                       | <------------------------ a byte |
	   | <-- linked, or why not                |                                  |
	   | SIGUSR1 when all are linked --------> |                                  |
	   |                                       | token, from rank 0 on ---------> |
	   | <-- done                              |                                  |

If a rank cannot connect to the next rank, mpiexec sends SIGUSR2 and the ranks exit.
*/
package selftest

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"remshell/pmiserver/client"
)

const (
	dialTimeout = 10 * time.Second // limit for each step of a connection to the next rank
	ringTimeout = 2 * time.Minute  // limit for the token to arrive
	largeSize   = 64 << 10         // bytes, more than fit into one packet of any network
)

// Run runs one rank of the self-test. pmi is the connection to the PMI server. in and out are the rank's standard input
// and output. When Run receives SIGUSR1 from signals, the rank takes part in passing a token around. When it receives
// SIGUSR2, it returns.
func Run(getenv func(string) string, pmi io.ReadWriter, in io.Reader, out io.Writer, signals <-chan os.Signal) error {
	r := ringRank{client: client.New(pmi), out: out, host: getenv("MPIEXEC_HOST"), address: getenv("PMI_HOSTNAME")}
	var err error
	if r.rank, err = strconv.Atoi(getenv("PMI_RANK")); err == nil {
		r.size, err = strconv.Atoi(getenv("PMI_SIZE"))
	}
	if err != nil || r.size < 1 {
		return errors.New("PMI_RANK and PMI_SIZE are not set in the environment; mpiexec must start this program")
	}
	if r.address == "" && getenv("MPIEXEC_NNODES") == "1" {
		r.address = "127.0.0.1"
	}
	if r.address == "" { // the address that an MPI library would use
		r.address, _ = os.Hostname()
	}
	input := ""
	if r.rank == 0 {
		input, _ = bufio.NewReader(in).ReadString('\n')
	}
	return r.run(strings.TrimSuffix(input, "\n"), signals)
}

// A ringRank is one rank of the ring that the self-test forms.
type ringRank struct {
	client     *client.Client
	out        io.Writer
	rank, size int
	host       string // the host as the user wrote it
	address    string // address at which the rank listens
}

func (m *ringRank) run(input string, signals <-chan os.Signal) error {
	if err := m.client.Init(); err != nil {
		return err
	}
	secret := newSecret()
	ln, failed := net.Listen("tcp", net.JoinHostPort(m.address, "0"))
	mine := rankAddress{Host: m.host, Secret: secret}
	if failed == nil {
		defer ln.Close()
		mine.Address = ln.Addr().String()
	}
	next, fence, err := m.exchange(mine)
	if err != nil {
		return err
	}
	if err := m.report(Report{Step: Started, Took: fence, Input: input}); err != nil {
		return err
	}
	prev := make(chan net.Conn, 1)
	link := Report{Step: Linked, Address: m.address, Err: errText(netErrWithoutAddress(failed))} // it cannot listen
	var conn net.Conn
	if failed == nil {
		go acceptPrevious(ln, secret, prev)
		conn, err = dial(next)
		link = Report{Step: Linked, Peer: next.Host, Address: next.Address, Err: errText(err)}
	}
	if err := m.report(link); err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	if <-signals == syscall.SIGUSR1 && conn != nil {
		took, err := m.passToken(conn, prev)
		if err := m.report(Report{Step: Done, Took: took, Err: errText(err)}); err != nil {
			return err
		}
	}
	return m.client.Finalize()
}

func newSecret() string {
	b := make([]byte, 16)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// report writes a report to the rank's standard output.
func (m *ringRank) report(r Report) error {
	r.Rank, r.Size, r.Host = m.rank, m.size, m.host
	line, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Fprintf(m.out, "%s%s\n", reportPrefix, line)
	}
	return err
}

// A rankAddress is the address of a rank together with a secret. The rank publishes both by PMI, and the
// previous rank uses them to connect.
type rankAddress struct {
	Address string // empty: the rank does not listen
	Secret  string // the rank accepts only a connection that sends it
	Host    string
}

// exchange publishes the rank's own address and returns the address of the next rank. fenceTime is the duration of
// the PMI fence.
func (m *ringRank) exchange(mine rankAddress) (next rankAddress, fenceTime time.Duration, err error) {
	key := func(rank int) string { return fmt.Sprintf("selftest-%d", rank%m.size) }
	value, err := json.Marshal(mine)
	if err == nil {
		err = m.client.Put(key(m.rank), hex.EncodeToString(value)) // a value of PMI-1 has no blanks
	}
	if err != nil {
		return next, 0, err
	}
	began := time.Now()
	if err := m.client.Barrier(); err != nil {
		return next, 0, err
	}
	got, found, err := m.client.Get(key(m.rank + 1))
	if err == nil && !found {
		err = fmt.Errorf("pmi: rank %d has not published its address", (m.rank+1)%m.size)
	}
	fenceTime = time.Since(began)
	if err == nil {
		value, err = hex.DecodeString(got)
	}
	if err == nil {
		err = json.Unmarshal(value, &next)
	}
	return next, fenceTime, err
}

// dial connects to the next rank and sends the next rank's secret, and then largeSize bytes. The next rank must
// acknowledge both.
func dial(next rankAddress) (net.Conn, error) {
	if next.Address == "" {
		return nil, errors.New("the other rank does not listen on a port")
	}
	conn, err := net.DialTimeout("tcp", next.Address, dialTimeout)
	if err != nil {
		return nil, netErrWithoutAddress(err)
	}
	sendAndWait := func(data []byte) error {
		conn.SetDeadline(time.Now().Add(dialTimeout))
		_, err := conn.Write(data)
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		return netErrWithoutAddress(err)
	}
	if err = sendAndWait([]byte(next.Secret)); err == nil {
		if err = sendAndWait(make([]byte, largeSize)); err != nil {
			err = fmt.Errorf("small packets arrive, but large packets do not: %w", err)
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// netErrWithoutAddress returns an error of package net without the addresses in its text.
func netErrWithoutAddress(err error) error {
	var no syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &no):
		return no
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no reply within %v", dialTimeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the other rank closed the connection")
	}
	return err
}

// acceptPrevious waits for the first connection that sends the right secret, and sends the connection to the
// channel accepted. It also returns when the listener is closed.
func acceptPrevious(ln net.Listener, secret string, accepted chan<- net.Conn) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		if checkSecret(conn, secret) == nil {
			accepted <- conn
			return
		}
		conn.Close()
	}
}

// checkSecret receives and acknowledges the secret and the large packets that dial sends. A wrong secret is an error.
func checkSecret(conn net.Conn, secret string) error {
	conn.SetDeadline(time.Now().Add(2 * dialTimeout))
	got := make([]byte, len(secret))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != secret {
		return errors.New("the connection does not come from a rank of the self-test")
	}
	if _, err := conn.Write([]byte{1}); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, conn, largeSize); err != nil {
		return err
	}
	_, err := conn.Write([]byte{1})
	return err
}

// passToken passes a token around the ring. The token is a number to which each rank adds one. Rank 0 sends it first.
// On rank 0, passToken returns how long the token took to come back.
func (m *ringRank) passToken(next net.Conn, accepted <-chan net.Conn) (time.Duration, error) {
	var prev net.Conn
	select {
	case prev = <-accepted:
	case <-time.After(ringTimeout):
		return 0, errors.New("the previous rank has not connected to this rank")
	}
	defer prev.Close()
	for _, conn := range []net.Conn{next, prev} {
		conn.SetDeadline(time.Now().Add(ringTimeout))
	}
	began := time.Now()
	token := make([]byte, 8)
	send := func(n uint64) error {
		_, err := next.Write(binary.BigEndian.AppendUint64(nil, n))
		return err
	}
	if m.rank == 0 {
		if err := send(0); err != nil {
			return 0, netErrWithoutAddress(err)
		}
	}
	if _, err := io.ReadFull(prev, token); err != nil {
		return 0, netErrWithoutAddress(err)
	}
	n := binary.BigEndian.Uint64(token)
	switch {
	case m.rank > 0:
		return 0, send(n + 1)
	case n != uint64(m.size-1):
		return 0, fmt.Errorf("the message that the ranks passed around the ring visited %d ranks instead of %d", n+1, m.size)
	}
	return time.Since(began), nil
}
