/*
Pmixguest is a client of the PMIx server of its rank that does not behave.

	pmixguest say < SCRIPT      each line on a connection of its own, and what came of it
	pmixguest hold N COMMAND    runs a command while N connections are open that say nothing

See pmixtest.Client.RunScript for the lines.
*/
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"

	"remshell/test/pmixtest"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "pmixguest: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	guest, err := pmixtest.NewClient(os.Getenv)
	switch {
	case err != nil:
		return err
	case len(args) == 1 && args[0] == "say":
		return guest.RunScript(os.Stdin, os.Stdout)
	case len(args) > 2 && args[0] == "hold":
		return holdConnections(guest, args[1], args[2:])
	}
	return fmt.Errorf("what shall I do?")
}

// holdConnections opens connections, which the server may close, and runs the command meanwhile.
func holdConnections(guest *pmixtest.Client, count string, command []string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	for range n {
		conn, err := guest.Dial()
		if err != nil {
			return err
		}
		open = append(open, conn)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
