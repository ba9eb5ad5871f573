// SPDX-License-Identifier: Apache-2.0

// The kubelet's side of what is timed, with grpc-go as in the kubelet; ../../bench-client.c is the same in C. Prints one
// JSON object, microseconds.
//
//	client call SOCKET METHOD CLIENTS CALLS ID...
//	client watch SOCKET FILE CHANGES GAP
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const warmUp = 100

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	check(err)
	return n
}

// As the kubelet dials a device plugin.
func dial(socket string) api.DevicePluginClient {
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	return api.NewDevicePluginClient(connection)
}

func show(samples []time.Duration) {
	sort.Slice(samples, func(i, k int) bool { return samples[i] < samples[k] })
	at := func(i int) float64 { return float64(samples[i].Nanoseconds()) / 1000 }
	fmt.Printf("{\"samples\": %d, \"p50\": %.1f, \"p99\": %.1f, \"minimum\": %.1f}\n",
		len(samples), at(len(samples)/2), at(len(samples)*99/100), at(0))
}

func callOnce(client api.DevicePluginClient, method string, ids []string) {
	var err error
	if method == "Allocate" {
		_, err = client.Allocate(context.Background(), &api.AllocateRequest{
			ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIDs: ids}}})
	} else {
		_, err = client.GetPreferredAllocation(context.Background(), &api.PreferredAllocationRequest{
			ContainerRequests: []*api.ContainerPreferredAllocationRequest{
				{AvailableDeviceIDs: ids, AllocationSize: int32(len(ids)+1) / 2}}})
	}
	check(err)
}

func call(words []string) {
	clients, calls := number(words[2]), number(words[3])
	samples := make([]time.Duration, clients*calls)
	var all sync.WaitGroup
	for i := 0; i < clients; i++ {
		all.Add(1)
		go func(own []time.Duration) {
			defer all.Done()
			client := dial(words[0])
			for n := 0; n < warmUp; n++ {
				callOnce(client, words[1], words[4:])
			}
			for n := range own {
				began := time.Now()
				callOnce(client, words[1], words[4:])
				own[n] = time.Since(began)
			}
		}(samples[i*calls : (i+1)*calls])
	}
	all.Wait()
	show(samples)
}

func watch(words []string) {
	gap := time.Duration(number(words[3])) * time.Microsecond
	stream, err := dial(words[0]).ListAndWatch(context.Background(), &api.Empty{})
	check(err)
	_, err = stream.Recv()
	check(err)
	time.Sleep(300 * time.Millisecond)
	samples := make([]time.Duration, number(words[2]))
	for i := range samples {
		text := "ok\n"
		if i%2 == 0 {
			text = "bad"
		}
		began := time.Now()
		// Texts are of one length: nothing to cut off, so one write is one event.
		file, err := os.OpenFile(words[1], os.O_WRONLY, 0)
		check(err)
		_, err = file.WriteString(text)
		check(err)
		check(file.Close())
		_, err = stream.Recv()
		check(err)
		samples[i] = time.Since(began)
		time.Sleep(gap)
	}
	show(samples)
}

func main() {
	if len(os.Args) >= 6 && os.Args[1] == "call" {
		call(os.Args[2:])
	} else if len(os.Args) == 6 && os.Args[1] == "watch" {
		watch(os.Args[2:])
	} else {
		log.Fatal("usage: client call SOCKET METHOD CLIENTS CALLS ID... | client watch SOCKET FILE CHANGES GAP")
	}
}
