package pmiserver

import (
	"bytes"
	"context"
	"io"
	"time"
)

// A process that was started without a server runs mpiexec when it needs one, and
// waits for it on a port (pmi-wire.md 1.4). There we come, and we begin:
//
//	Server                                        client
//	  | cmd=singinit authtype=none ---------------> |
//	  | <-- cmd=singinit pmi_version=1 stdio=yes    |
//	  | cmd=singinit_info versionok=yes ----------> |
//	  | <----------------------------- cmd=init     |  then as on a descriptor

// ServeSingleton is Serve for such a process, the only rank of its group. The
// group's name may not begin with "singinit-".
func (s *Server) ServeSingleton(ctx context.Context, conn io.ReadWriter) error {
	rank := s.info.Ranks[0]
	return s.serve(ctx, rank, conn, arrival{id: rank, single: true})
}

// singinit answers who has called for us. Its output stays where it is: stdio=yes
// would oblige us to open three more connections.
func (c *session) singinit() {
	if !c.single {
		c.unknown([]byte("singinit"))
		return
	}
	ok := "no"
	if version, _ := c.args.number("pmi_version"); version == 1 {
		ok = "yes"
	}
	c.say("cmd=singinit_info versionok=" + ok + " stdio=no kvsname=" + c.s.info.Name + "\n")
}

// maxFarewell is how long a process that is refused may take to go.
const maxFarewell = time.Second

// RefuseSingleton tells a process that there will be no server for it, in the one
// way in which no known client hangs or crashes (1.4). It closes conn.
func RefuseSingleton(conn io.ReadWriteCloser) {
	defer conn.Close()
	impatience := time.AfterFunc(maxFarewell, func() { conn.Close() })
	defer impatience.Stop()
	io.WriteString(conn, "cmd=singinit authtype=none\n")
	var in frame
	for line := []byte(nil); line == nil; {
		n, err := conn.Read(in.room())
		in.filled(n)
		if n == 0 && err != nil {
			return
		}
		if line, err = in.next(); err != nil || line != nil && !bytes.HasPrefix(line, []byte("cmd=singinit")) {
			return
		}
	}
	io.WriteString(conn, "cmd=singinit_info versionok=no stdio=no kvsname=none\n")
	io.Copy(io.Discard, conn) // until it goes
}
