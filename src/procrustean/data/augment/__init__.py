"""What is done to images in training: crops, flips, colours, holes; by name in a recipe's `augment`.

`settings.Augmentation` says what is done and draws its random numbers ahead, with numpy alone.
`on_device.DeviceAugmentation` does it to a batch of tensors, `in_workers.augment_batch` the part that is done image by
image in worker processes.
"""
