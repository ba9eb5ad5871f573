// SPDX-License-Identifier: Apache-2.0

// A minimal device plugin in Go, what `make bench` compares devplugd with: no logging, no discovery, no checks. It
// serves the resources that are named, each on a socket of its own; with several names it is one process for all, as
// generic-device-plugin is.
//
//	plugin [-devices N] [-health FILE] PLUGIN_DIR RESOURCE...
//
// Device 1 of every resource is healthy while the first line of FILE is "ok", watched with inotify.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	resource, socket string
	server           *grpc.Server
	mutex            sync.Mutex
	devices          []*api.Device
	changed          chan struct{} // closed at the next change
}

func newPlugin(directory, resource string, count int) *plugin {
	kind := resource[strings.IndexByte(resource, '/')+1:]
	p := &plugin{resource: resource, socket: filepath.Join(directory, "go-"+kind+".sock"), changed: make(chan struct{})}
	for i := 0; i < count; i++ {
		p.devices = append(p.devices, &api.Device{ID: fmt.Sprintf("%s-%d", kind, i), Health: api.Healthy})
	}
	return p
}

func (p *plugin) setHealth(health string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.devices) < 2 || p.devices[1].Health == health {
		return
	}
	devices := append([]*api.Device{}, p.devices...)
	devices[1] = &api.Device{ID: devices[1].ID, Health: health}
	p.devices = devices
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	for {
		p.mutex.Lock()
		devices, changed := p.devices, p.changed
		p.mutex.Unlock()
		if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"DEVICES": strings.Join(container.DevicesIDs, ",")}})
	}
	return response, nil
}

func (p *plugin) GetPreferredAllocation(_ context.Context, request *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	response := &api.PreferredAllocationResponse{}
	for _, container := range request.ContainerRequests {
		ids := append([]string{}, container.MustIncludeDeviceIDs...)
		for _, id := range container.AvailableDeviceIDs {
			if len(ids) < int(container.AllocationSize) {
				ids = append(ids, id)
			}
		}
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return response, nil
}

// register serves on a fresh socket and tells the kubelet of it.
func (p *plugin) register(kubelet string) error {
	if p.server != nil {
		p.server.Stop()
	}
	os.Remove(p.socket)
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		return err
	}
	p.server = grpc.NewServer()
	api.RegisterDevicePluginServer(p.server, p)
	go p.server.Serve(listener)
	connection, err := grpc.NewClient("unix:"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = api.NewRegistrationClient(connection).Register(context.Background(), &api.RegisterRequest{
		Version: api.Version, Endpoint: filepath.Base(p.socket), ResourceName: p.resource,
		Options: &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}}, grpc.WaitForReady(true))
	return err
}

// watch calls act with the name of each file in the directory that inotify names.
func watch(directory string, mask uint32, act func(name string)) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err == nil {
		_, err = syscall.InotifyAddWatch(fd, directory, mask)
	}
	if err != nil {
		log.Fatal(err)
	}
	// Non-blocking, so that the runtime waits with epoll, as fsnotify does.
	file := os.NewFile(uintptr(fd), "inotify")
	buffer := make([]byte, 65536)
	for {
		n, err := file.Read(buffer)
		if err != nil {
			log.Fatal(err)
		}
		for at := 0; at+syscall.SizeofInotifyEvent <= n; {
			event := (*syscall.InotifyEvent)(unsafe.Pointer(&buffer[at]))
			at += syscall.SizeofInotifyEvent
			act(string(bytes.TrimRight(buffer[at:at+int(event.Len)], "\x00")))
			at += int(event.Len)
		}
	}
}

func main() {
	count := flag.Int("devices", 3, "devices of each resource")
	health := flag.String("health", "", "file with the health of device 1")
	flag.Parse()
	directory := flag.Arg(0)
	kubelet := filepath.Join(directory, "kubelet.sock")
	plugins := []*plugin{}
	for _, resource := range flag.Args()[1:] {
		plugins = append(plugins, newPlugin(directory, resource, *count))
	}
	registerAll := func() {
		for _, p := range plugins {
			go func(p *plugin) {
				if err := p.register(kubelet); err != nil {
					log.Fatal(err)
				}
			}(p)
		}
	}
	if *health != "" {
		go watch(filepath.Dir(*health), syscall.IN_MODIFY, func(name string) {
			text, err := os.ReadFile(*health)
			if name != filepath.Base(*health) || err != nil {
				return
			}
			state := api.Unhealthy
			if strings.TrimSpace(string(text)) == "ok" {
				state = api.Healthy
			}
			for _, p := range plugins {
				p.setHealth(state)
			}
		})
	}
	registerAll()
	watch(directory, syscall.IN_CREATE, func(name string) {
		if name == "kubelet.sock" {
			registerAll()
		}
	})
}
