//go:build linux

// Pmiplay is a rank whose part is played by somebody else: it passes on what its PMI server
// says to a socket, and what comes from there to the server.
//
//	$ mpiexec -n 2 pmiplay SOCKET
//
// First it says there who it is: its rank, and the name of the job.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if err := play(); err != nil {
		fmt.Fprintf(os.Stderr, "pmiplay: %v\n", err)
		os.Exit(1)
	}
}

func play() error {
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil || len(os.Args) != 2 {
		return fmt.Errorf("which socket, and where is mpiexec?")
	}
	file := os.NewFile(uintptr(fd), "PMI_FD")
	server, err := net.FileConn(file)
	if err != nil {
		return err
	}
	file.Close()
	player, err := net.Dial("unix", os.Args[1])
	if err != nil {
		return err
	}
	fmt.Fprintf(player, "%s %s\n", os.Getenv("PMI_RANK"), os.Getenv("MPIEXEC_JOBID"))
	go func() {
		io.Copy(server, player)
		server.(*net.UnixConn).CloseWrite() // what is still to be told comes on
	}()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		server.SetReadDeadline(time.Now().Add(relayTimeout))
	}()
	io.Copy(player, server)
	return player.Close()
}

// relayTimeout is how long what was said before the end of the job may take to be passed on.
const relayTimeout = 50 * time.Millisecond
