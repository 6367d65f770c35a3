// go-stomp on a broker that the test starts; no container.
//
//	go test
package example

import (
	"testing"
	"time"

	"github.com/go-stomp/stomp/v3"
	"github.com/go-stomp/stomp/v3/frame"
)

const patience = time.Minute

func TestGoStomp(t *testing.T) {
	address := startBroker(t)

	t.Run("an order comes with its headers", func(t *testing.T) {
		shop := connect(t, address)
		orders := subscribe(t, shop, "/queue/apples", stomp.SubscribeOpt.Header("selector", "fruit = 'apple'"))
		for _, fruit := range []string{"pear", "apple"} {
			check(t, shop.Send("/queue/apples", "text/plain", []byte("ten "+fruit+"s"), stomp.SendOpt.Receipt,
				stomp.SendOpt.Header("fruit", fruit), stomp.SendOpt.Header("persistent", "true")))
		}
		order := next(t, orders)
		expect(t, string(order.Body), "ten apples")
		expect(t, order.ContentType, "text/plain")
		expect(t, order.Header.Get("fruit"), "apple")
		expect(t, order.Header.Get("persistent"), "true")
		check(t, shop.Ack(order))
		check(t, shop.Disconnect())
	})

	t.Run("an order that is not accepted comes again", func(t *testing.T) {
		shop := connect(t, address)
		orders := subscribe(t, shop, "/queue/pears")
		check(t, shop.Send("/queue/pears", "text/plain", []byte("ten pears"), stomp.SendOpt.Receipt))
		order := next(t, orders)
		expect(t, order.Header.Get("redelivered"), "")
		check(t, shop.Nack(order))
		order = next(t, orders)
		expect(t, order.Header.Get("redelivered"), "true")
		check(t, shop.Ack(order))
		check(t, shop.Disconnect())
	})

	t.Run("an order and its invoice are one transaction", func(t *testing.T) {
		shop, office := connect(t, address), connect(t, address)
		orders, invoices := subscribe(t, shop, "/queue/plums"), subscribe(t, office, "/queue/invoices")
		check(t, office.Send("/queue/plums", "text/plain", []byte("ten plums"), stomp.SendOpt.Receipt))
		order := next(t, orders)

		aborted := shop.Begin()
		check(t, aborted.Send("/queue/invoices", "text/plain", []byte("wrong")))
		check(t, aborted.Ack(order))
		check(t, aborted.AbortWithReceipt())

		committed := shop.Begin()
		check(t, committed.Send("/queue/invoices", "text/plain", []byte("right")))
		check(t, committed.Ack(order))
		check(t, committed.CommitWithReceipt())

		invoice := next(t, invoices)
		expect(t, string(invoice.Body), "right")
		check(t, office.Ack(invoice))
		check(t, shop.Disconnect())
		check(t, office.Disconnect())
		// Nothing that was acknowledged comes again.
		office = connect(t, address)
		left := subscribe(t, office, "/queue/plums")
		check(t, office.Send("/queue/plums", "text/plain", []byte("the next"), stomp.SendOpt.Receipt))
		expect(t, string(next(t, left).Body), "the next")
		check(t, office.Disconnect())
	})

	t.Run("a quiet client stays connected", func(t *testing.T) {
		beats := stomp.ConnOpt.HeartBeat(2*time.Second, time.Second)
		shop := connect(t, address, beats, stomp.ConnOpt.WithStats())
		orders := subscribe(t, shop, "/queue/quiet")
		// The broker beats each second, and would end a connection from which it hears nothing for four.
		for shop.Stats().ReadsReceived < 6 {
			select {
			case message := <-orders.C:
				t.Fatal(message.Err)
			case <-time.After(10 * time.Millisecond):
			}
		}
		check(t, shop.Send("/queue/quiet", "text/plain", []byte("still here"), stomp.SendOpt.Receipt))
		check(t, shop.Disconnect())
	})
}

// connect returns a connection that ends with the test at the latest.
func connect(t *testing.T, address string, options ...func(*stomp.Conn) error) *stomp.Conn {
	t.Helper()
	connection, err := stomp.Dial("tcp", address, options...)
	check(t, err)
	t.Cleanup(func() { _ = connection.MustDisconnect() })
	expect(t, string(connection.Version()), "1.2")
	return connection
}

func subscribe(
	t *testing.T, connection *stomp.Conn, destination string, options ...func(*frame.Frame) error,
) *stomp.Subscription {
	t.Helper()
	subscription, err := connection.Subscribe(destination, stomp.AckClientIndividual, options...)
	check(t, err)
	return subscription
}

func next(t *testing.T, subscription *stomp.Subscription) *stomp.Message {
	t.Helper()
	select {
	case message := <-subscription.C:
		check(t, message.Err)
		return message
	case <-time.After(patience):
		t.Fatal("no message came")
		return nil
	}
}

func expect(t *testing.T, found, expected string) {
	t.Helper()
	if found != expected {
		t.Fatalf("%q, not %q", found, expected)
	}
}
