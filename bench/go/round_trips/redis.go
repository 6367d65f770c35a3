package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Channels as those of the lab's driver. A request is `CHANNEL REQUESTER BODY`, its reply is `REQUESTER BODY`.
const (
	redisRequests = "responders:queue:run-000001-queue-0:0123456789abcdef"
	redisReplies  = "replies:0123456789abcdef"
)

// openRedis opens a connection that pipelines the commands of all goroutines.
func openRedis(address string) (rueidis.Client, error) {
	return rueidis.NewClient(
		rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true, PipelineMultiplex: -1},
	)
}

// subscribeRedis opens a connection for what is published, and returns when Redis has confirmed the subscription.
func subscribeRedis(address, channel string, received func(rueidis.PubSubMessage)) error {
	client, err := openRedis(address)
	if err != nil {
		return err
	}
	confirmed, ended := make(chan bool, 1), make(chan error, 1)
	hook := rueidis.WithOnSubscriptionHook(context.Background(), func(rueidis.PubSubSubscription) { confirmed <- true })
	go func() { ended <- client.Receive(hook, client.B().Subscribe().Channel(channel).Build(), received) }()
	select {
	case <-confirmed:
		return nil
	case err := <-ended:
		return err
	}
}

// publish fails if there is not one subscriber.
func publish(client rueidis.Client, channel, message string) error {
	command := client.B().Publish().Channel(channel).Message(message).Build()
	subscribers, err := client.Do(context.Background(), command).ToInt64()
	if err == nil && subscribers != 1 {
		err = fmt.Errorf("%s has %d subscribers", channel, subscribers)
	}
	return err
}

func connectRedis(address string, requesters int) (ask, error) {
	client, err := openRedis(address)
	if err != nil {
		return nil, err
	}
	sizes := make([]chan int, requesters)
	for requester := range sizes {
		sizes[requester] = make(chan int, 1)
	}
	err = subscribeRedis(address, redisReplies, func(reply rueidis.PubSubMessage) {
		requester, body, _ := strings.Cut(reply.Message, " ")
		sizes[whole(requester)] <- len(body)
	})
	return func(requester int, body []byte) (int, error) {
		request := redisReplies + " " + strconv.Itoa(requester) + " " + rueidis.BinaryString(body)
		if err := publish(client, redisRequests, request); err != nil {
			return 0, err
		}
		return <-sizes[requester], nil
	}, err
}

func respondRedis(address string, requesters int) error {
	client, err := openRedis(address)
	if err != nil {
		return err
	}
	reply := func(request rueidis.PubSubMessage) {
		channel, message, _ := strings.Cut(request.Message, " ")
		check(publish(client, channel, message))
	}
	if requesters == 1 {
		return subscribeRedis(address, redisRequests, reply)
	}
	// The replies to requests that come together leave together.
	return subscribeRedis(address, redisRequests, func(request rueidis.PubSubMessage) { go reply(request) })
}
