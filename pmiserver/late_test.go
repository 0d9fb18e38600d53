package pmiserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"remshell/pmiserver"
	"remshell/pmiserver/spawn"
	"remshell/test/pmitest"
)

// slowServices are the services of an mpiexec that is a second away: its names and its spawns.
type slowServices struct {
	pmiserver.NameTable
	asked []spawn.Request
}

func (s *slowServices) Lookup(ctx context.Context, service string) (string, bool, error) {
	select {
	case <-time.After(time.Second):
		return s.NameTable.Lookup(ctx, service)
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
}

func (s *slowServices) Spawn(ctx context.Context, r spawn.Request) (string, []int, error) {
	s.asked = append(s.asked, r)
	select {
	case <-time.After(time.Second):
		if r.Commands[0].Argv[0] == "/no" {
			return "", nil, errors.New("node01: /no: no such file")
		}
		return "k1", nil, nil
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
}

// two serves two ranks of one node, whose mpiexec is slow.
func two(services *slowServices) (clients [2]*pmitest.Client, conns [2]io.Closer) {
	s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 2, Ranks: []int{0, 1}}, nil)
	s.Names, s.Spawner = services, services
	for rank := range clients {
		mine, theirs := net.Pipe()
		go s.Serve(context.Background(), rank, theirs)
		clients[rank], conns[rank] = pmitest.NewClient(mine), mine
		clients[rank].Init()
	}
	return clients, conns
}

// While one rank waits for mpiexec, another one does not.
func TestLateAnswers(t *testing.T) {
	for name, ask := range map[string]func(*pmitest.Client) error{
		"name": func(c *pmitest.Client) error {
			port, err := c.Lookup("svc")
			if port != "p" {
				t.Errorf("port %q", port)
			}
			return err
		},
		"spawn": func(c *pmitest.Client) error {
			return c.Spawn(nil, pmitest.Program{Argv: []string{"e"}, Count: 1})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			clients, conns := two(&slowServices{})
			began := time.Now()
			if err := clients[1].Publish("svc", "p"); err != nil {
				t.Error(err)
			}
			answered := make(chan error)
			go func() { answered <- ask(clients[0]) }()
			synctest.Wait()
			if n, err := clients[1].AppNum(); n != 0 || err != nil || time.Since(began) > 0 {
				t.Errorf("%s: the other rank gets %d, %v after %v", name, n, err, time.Since(began))
			}
			if err := <-answered; err != nil || time.Since(began) != time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
			for _, c := range conns {
				c.Close()
			}
		})
	}
}

// The server passes a client's spawn request on unchanged.
func TestClientSpawns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		services := &slowServices{}
		clients, conns := two(services)
		err := clients[1].Spawn([][2]string{{"port", "tag#0=;$"}},
			pmitest.Program{Argv: []string{"/x/e", "a b", ""}, Count: 3, Info: [][2]string{{"wdir", "/"}, {"host", "a,b"}}},
			pmitest.Program{Argv: []string{"f"}, Count: 1})
		want := spawn.Request{
			Group: "k0", Rank: 1,
			Commands: []spawn.Command{
				{Argv: []string{"/x/e", "a b", ""}, Count: 3, Info: []spawn.Pair{{Key: "wdir", Value: "/"}, {Key: "host", Value: "a,b"}}},
				{Argv: []string{"f"}, Count: 1},
			},
			Preputs: []spawn.Pair{{Key: "port", Value: "tag#0=;$"}},
		}
		if err != nil || len(services.asked) != 1 || !reflect.DeepEqual(services.asked[0], want) {
			t.Errorf("%v\n got %+v\nwant %+v", err, services.asked, want)
		}
		err = clients[0].Spawn(nil, pmitest.Program{Argv: []string{"/no"}, Count: 1})
		if err == nil || !strings.Contains(err.Error(), "msg=node01___no__no_such_file") {
			t.Errorf("a spawn that fails: %v", err)
		}
		for _, c := range conns {
			c.Close()
		}
	})
}
