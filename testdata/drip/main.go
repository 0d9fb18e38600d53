// Drip is what never comes to an end: it writes a byte each second.
//
//	drip                       what comes on standard input
//	drip ADDRESS TEXT TEXT     as a server: to whoever connects a text at once, then another one again and again
//
// Texts are strings of Go, in quotes. The server says "up" when it listens, and ends with its standard input.
package main

import (
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) == 1 {
		writeSlowly(os.Stdout, os.Stdin)
		return
	}
	first, drips := unquote(os.Args[2]), unquote(os.Args[3])
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	go accept(listener, first, drips)
	io.WriteString(os.Stdout, "up\n")
	io.Copy(io.Discard, os.Stdin)
}

func unquote(word string) string {
	text, err := strconv.Unquote(word)
	if err != nil {
		log.Fatalf("%s: %v", word, err)
	}
	return text
}

func accept(listener net.Listener, first, drips string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer conn.Close()
			io.WriteString(conn, first)
			writeSlowly(conn, endlessText(drips))
		}()
	}
}

// endlessText is a text that is read again and again.
type endlessText string

func (a endlessText) Read(p []byte) (int, error) { return copy(p, a), nil }

// writeSlowly writes what it reads, a byte each second, until nobody takes it.
func writeSlowly(to io.Writer, from io.Reader) {
	text := make([]byte, 64<<10)
	for {
		n, err := from.Read(text)
		for i := range n {
			if _, err := to.Write(text[i : i+1]); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
		if err != nil {
			return
		}
	}
}
