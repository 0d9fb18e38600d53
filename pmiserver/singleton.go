package pmiserver

import (
	"bytes"
	"errors"
	"io"
	"time"

	"remshell/pmiserver/pmi1"
	"remshell/pmiserver/pmiversion"
)

/*
A singleton is an MPI process that was started without mpiexec. When it needs a PMI server it
runs mpiexec, and waits for mpiexec on a port (pmi-wire.md 1.4). mpiexec then starts a job of one
rank, which is only a relay: it connects to that port, sends the first line, and copies bytes.

	Server                 relay                                        singleton
	  |                      | cmd=singinit authtype=none ---------------> |
	  |                      | <-- cmd=singinit pmi_version=1 stdio=yes    |
	  |                      | cmd=singinit_info versionok=yes ----------> |
	  | <------------------- | <----------------------------- cmd=init     |
	  | response_to_init --> | ------------------------------------------> |
*/

// RelaySingleton copies bytes between a singleton, which is an MPI process that was started without mpiexec, and a
// rank's connection to its PMI server. It returns when one of the two connections is closed, and closes both. group is
// the name of the singleton's process group; it must not begin with "singinit-". A singleton with an unknown PMI
// version is refused and continues without a server; this is not an error.
func RelaySingleton(client, server io.ReadWriteCloser, group string) error {
	defer client.Close()
	defer server.Close()
	version, rest, err := readSingletonInit(client)
	if err != nil {
		return err
	}
	if version != 1 {
		answerSingletonInit(client, "no", group)
		io.Copy(io.Discard, client)
		return nil
	}
	if err := answerSingletonInit(client, "yes", group); err != nil {
		return err
	}
	if _, err := server.Write(rest); err != nil {
		return err
	}
	go func() {
		defer client.Close() // the singleton must not wait for a reply for ever
		io.Copy(client, server)
	}()
	_, err = io.Copy(server, client)
	return err
}

// errNotSingleton is returned when the process at the other end does not reply as a PMI client does.
var errNotSingleton = errors.New("the process that listens on this port is not an MPI program that has started mpiexec")

// readSingletonInit sends the first line to a singleton, an MPI process that was started without mpiexec, and reads its
// PMI version. rest is the input that came after the singleton's reply.
func readSingletonInit(conn io.ReadWriter) (version int, rest []byte, err error) {
	if _, err := io.WriteString(conn, "cmd=singinit authtype=none\n"); err != nil {
		return 0, nil, err
	}
	var in messageReader
	for {
		n, err := conn.Read(in.readBuffer())
		in.addRead(n)
		if n == 0 && err != nil {
			return 0, nil, err
		}
		line, err := in.nextMessage()
		switch {
		case err != nil:
			return 0, nil, err
		case line == nil:
			continue
		case !bytes.HasPrefix(line, []byte("cmd=singinit")):
			return 0, nil, errNotSingleton
		}
		var fields pmiversion.Fields
		pmi1.Parse(&fields, line, nil)
		version, _ = fields.Number("pmi_version")
		return version, in.buf[in.start:], nil
	}
}

// answerSingletonInit tells a singleton (an MPI process that was started without mpiexec) whether it has a
// PMI server. The reply contains stdio=no, so that the singleton keeps its own stdout and stderr. With
// stdio=yes, mpiexec would have to open three more connections.
func answerSingletonInit(conn io.Writer, ok, group string) error {
	_, err := io.WriteString(conn, "cmd=singinit_info versionok="+ok+" stdio=no kvsname="+group+"\n")
	return err
}

// refusalTimeout is the maximum time to wait for a rejected process to close its connection.
const refusalTimeout = time.Second

// RefuseSingleton tells a singleton (an MPI process that was started without mpiexec) that there is no PMI
// server for it, and closes conn. This form of refusal makes no known client hang or crash (pmi-wire.md 1.4).
func RefuseSingleton(conn io.ReadWriteCloser) {
	defer conn.Close()
	timeout := time.AfterFunc(refusalTimeout, func() { conn.Close() })
	defer timeout.Stop()
	if _, _, err := readSingletonInit(conn); err != nil {
		return
	}
	answerSingletonInit(conn, "no", "none")
	io.Copy(io.Discard, conn) // until the singleton closes it
}
