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
A process that was started without a server runs mpiexec when it needs one, and waits for
it on a port (pmi-wire.md 1.4). mpiexec starts a job of one rank then, which is no more than
a relay: it goes there, begins, and passes on what is said.

	Server                 relay                                        client
	  |                      | cmd=singinit authtype=none ---------------> |
	  |                      | <-- cmd=singinit pmi_version=1 stdio=yes    |
	  |                      | cmd=singinit_info versionok=yes ----------> |
	  | <------------------- | <----------------------------- cmd=init     |
	  | response_to_init --> | ------------------------------------------> |
*/

// RelaySingleton joins such a process with the connection of a rank to its server, until either
// end is over, and closes both. The group's name may not begin with "singinit-". A process
// whose version is unknown is told so, and is no error: it goes by itself.
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
		defer client.Close() // who waits for an answer shall not wait for ever
		io.Copy(client, server)
	}()
	_, err = io.Copy(server, client)
	return err
}

// errNotSingleton is the fault of a process that answers as no client does.
var errNotSingleton = errors.New("what waits there is no MPI program that has called for mpiexec")

// readSingletonInit begins, and hears in which version of PMI the process speaks. rest is what it has
// said already beside that.
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
		var said pmiversion.Fields
		pmi1.Parse(&said, line, nil)
		version, _ = said.Number("pmi_version")
		return version, in.buf[in.start:], nil
	}
}

// answerSingletonInit says whether there will be a server. The process's output stays where it is:
// stdio=yes would oblige us to open three more connections.
func answerSingletonInit(conn io.Writer, ok, group string) error {
	_, err := io.WriteString(conn, "cmd=singinit_info versionok="+ok+" stdio=no kvsname="+group+"\n")
	return err
}

// refusalTimeout is how long a process that is refused may take to go.
const refusalTimeout = time.Second

// RefuseSingleton tells a process that there will be no server for it, in the one
// way in which no known client hangs or crashes (1.4). It closes conn.
func RefuseSingleton(conn io.ReadWriteCloser) {
	defer conn.Close()
	impatience := time.AfterFunc(refusalTimeout, func() { conn.Close() })
	defer impatience.Stop()
	if _, _, err := readSingletonInit(conn); err != nil {
		return
	}
	answerSingletonInit(conn, "no", "none")
	io.Copy(io.Discard, conn) // until it goes
}
